//! A list as a stream of chunks: memory stays bounded however long the list and however slow the client.

use std::{io::Write as _, sync::Arc};

use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};

use super::{Presentation, layout::Layout};
use crate::{encoded::Encoded, negotiate::Encoding, registry::ListAnswer, schema::protobuf};

/// Chunks are this large: with its header an HTTP/2 frame of it fills one TLS record, and what is
/// copied is still in the processor's cache when it is encrypted.
const CHUNK: usize = (16 << 10) - 9;

/// How much memory is taken at once, to be cut into chunks.
const BLOCK: usize = 4 * CHUNK;

/// The body of a list response.
pub struct ListBody {
    presentation: Presentation,
    items: Items,
    first_item: bool,
    finished: bool,
    /// What is written and not yet passed on.
    plain: BytesMut,
    /// For indented JSON and YAML.
    layout: Option<Layout>,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

/// What is yet to be written.
enum Items {
    /// Objects that become JSON one by one.
    Json(std::vec::IntoIter<Arc<Encoded>>),
    /// Messages: how long they are together stands before the first one.
    Protobuf(std::vec::IntoIter<Bytes>),
}

impl ListBody {
    /// The body of `list`.
    pub fn new(presentation: Presentation, list: ListAnswer, gzip: bool) -> Self {
        let gzip = gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        match presentation.accepted.encoding {
            Encoding::Protobuf => Self::protobuf(presentation, &list, gzip),
            _ => Self::text(presentation, list, gzip),
        }
    }

    fn protobuf(
        presentation: Presentation,
        list: &ListAnswer,
        gzip: Option<GzEncoder<Vec<u8>>>,
    ) -> Self {
        let (head, items) = presentation.protobuf_list(list);
        Self {
            presentation,
            items: Items::Protobuf(items.into_iter()),
            first_item: true,
            finished: false,
            plain: BytesMut::from(&*head),
            layout: None,
            gzip,
        }
    }

    fn text(
        presentation: Presentation,
        list: ListAnswer,
        gzip: Option<GzEncoder<Vec<u8>>>,
    ) -> Self {
        let mut plain = presentation.list_head(&list);
        let layout = presentation.is_laid_out() && !list.objects.is_empty();
        let layout = layout.then(|| Layout::new(&plain, presentation.accepted.encoding)).flatten();
        if let Some(layout) = &layout {
            plain = BytesMut::from(layout.before.as_bytes());
        }
        Self {
            presentation,
            items: Items::Json(list.objects.into_iter()),
            first_item: true,
            finished: false,
            plain,
            layout,
            gzip,
        }
    }

    /// About how long the plain body will be.
    pub fn estimate(list: &ListAnswer) -> usize {
        list.objects.iter().map(|object| object.json().len()).sum()
    }

    /// The next piece, or nothing at the end.
    pub fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            let plain = self.next_plain();
            let Some(encoder) = &mut self.gzip else { return plain };
            // Compressing into memory cannot fail. It may give nothing for a while.
            match &plain {
                Some(plain) => drop(encoder.write_all(plain)),
                None => drop(encoder.try_finish()),
            }
            let packed = std::mem::take(encoder.get_mut());
            if !packed.is_empty() {
                return Some(packed.into());
            }
            plain.as_ref()?;
        }
    }

    fn next_plain(&mut self) -> Option<Bytes> {
        while self.plain.len() < CHUNK && !self.finished {
            self.write_next();
        }
        let size = self.plain.len().min(CHUNK);
        (size > 0).then(|| self.plain.split_to(size).freeze())
    }

    /// Writes one more item, or the end.
    fn write_next(&mut self) {
        let objects = match &mut self.items {
            Items::Json(objects) => objects,
            Items::Protobuf(messages) => match messages.next() {
                None => return self.write_end(),
                Some(message) => {
                    self.plain.extend_from_slice(&protobuf::list_item(message.len()));
                    return self.plain.extend_from_slice(&message);
                }
            },
        };
        let Some(object) = objects.next() else { return self.write_end() };
        if self.layout.is_some() {
            return self.write_laid_out(&object);
        }
        let size = |object: &Arc<Encoded>| object.json().len() + 1;
        if self.plain.capacity() - self.plain.len() < size(&object) {
            let next: usize = objects.as_slice().iter().take(BLOCK / 1024).map(size).sum();
            self.plain.reserve(size(&object) + next.min(BLOCK));
        }
        if !std::mem::take(&mut self.first_item) {
            self.plain.extend_from_slice(b",");
        }
        self.presentation.write_item(&object, &mut self.plain);
    }

    fn write_laid_out(&mut self, object: &Encoded) {
        let Some(layout) = &self.layout else { return };
        let mut item = BytesMut::new();
        self.presentation.write_item(object, &mut item);
        if !std::mem::take(&mut self.first_item) {
            self.plain.extend_from_slice(layout.between.as_bytes());
        }
        self.plain.extend_from_slice(layout.item(&item).as_bytes());
    }

    fn write_end(&mut self) {
        self.finished = true;
        if let Items::Protobuf(_) = self.items {
            return self.plain.extend_from_slice(protobuf::LIST_END);
        }
        match &self.layout {
            Some(layout) => self.plain.extend_from_slice(layout.after.as_bytes()),
            None => self.plain.extend_from_slice(b"]}"),
        }
        // An empty list has no items to lay out: it is whole by now.
        if self.layout.is_none() && self.presentation.is_laid_out() {
            let whole = self.plain.split().freeze();
            self.plain = BytesMut::from(&*self.presentation.finish(whole));
        }
    }
}
