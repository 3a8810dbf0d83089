//! Where the fields of a table are in its protobuf message.

use crate::schema::{Field, Struct};

/// The fields of a message, in the order of their numbers.
#[derive(Debug)]
pub struct Layout {
    pub(super) places: Box<[Place]>,
}

/// One number of a message.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) number: u32,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    /// A field, by its place in the table.
    Field(usize),
    /// A message that JSON does not have: its fields are those of the object around it.
    Inline(Layout),
}

impl Layout {
    /// The layout of a table.
    pub(in crate::schema) fn of(table: &Struct) -> Self {
        let fields = table.fields().iter().enumerate();
        let numbered = fields.filter(|(_, field)| !field.number.is_empty());
        Self::at_depth(&numbered.collect::<Vec<_>>(), 0)
    }

    /// The layout of fields that share their first `depth` numbers.
    fn at_depth(fields: &[(usize, &Field)], depth: usize) -> Self {
        let mut numbers: Vec<u32> = fields.iter().map(|(_, field)| field.number[depth]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let places = numbers.into_iter().map(|number| {
            let here = fields.iter().filter(|(_, field)| field.number[depth] == number);
            let here: Vec<_> = here.copied().collect();
            let what = match here[..] {
                [(at, field)] if field.number.len() == depth + 1 => What::Field(at),
                _ => What::Inline(Self::at_depth(&here, depth + 1)),
            };
            Place { number, what }
        });
        Self { places: places.collect() }
    }

    /// What is at a number.
    pub(super) fn place(&self, number: u64) -> Option<&Place> {
        let at = self.places.binary_search_by(|place| u64::from(place.number).cmp(&number));
        Some(&self.places[at.ok()?])
    }
}
