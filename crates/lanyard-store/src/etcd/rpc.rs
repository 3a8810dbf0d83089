//! The part of etcd's gRPC interface that we use, as messages with etcd's field numbers.
//!
//! Written by hand from `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto` of etcd 3.5 and 3.6;
//! only fields that we set or read are here, since protobuf ignores the others. Field numbers never
//! change, so this needs no generator.

use bytes::Bytes;
use tonic::codegen::http::uri::PathAndQuery;

/// A method of etcd, with the types it takes and gives.
pub(super) trait Method: prost::Message + Clone + Send + 'static {
    /// What it answers.
    type Response: prost::Message + Default + Send + 'static;
    /// Where it is.
    const PATH: &'static str;

    /// Where it is, as HTTP has it.
    fn path() -> PathAndQuery {
        PathAndQuery::from_static(Self::PATH)
    }
}

impl Method for RangeRequest {
    type Response = RangeResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Range";
}

impl Method for TxnRequest {
    type Response = TxnResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Txn";
}

impl Method for CompactionRequest {
    type Response = CompactionResponse;
    const PATH: &'static str = "/etcdserverpb.KV/Compact";
}

impl Method for LeaseGrantRequest {
    type Response = LeaseGrantResponse;
    const PATH: &'static str = "/etcdserverpb.Lease/LeaseGrant";
}

impl Method for WatchRequest {
    type Response = WatchResponse;
    const PATH: &'static str = "/etcdserverpb.Watch/Watch";
}

/// What every answer begins with.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ResponseHeader {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "9")]
    pub(super) count_only: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
    #[prost(int64, tag = "4")]
    pub(super) count: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

/// Compares the revision that wrote a key: `result` 0 is "equal", `target` 2 is that revision.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "TargetUnion", tags = "6")]
    pub(super) target_union: Option<TargetUnion>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum TargetUnion {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    /// That `key` was last written at `revision`, where 0 means that it is not there.
    pub(super) fn written_at(key: Vec<u8>, revision: i64) -> Self {
        let target_union = Some(TargetUnion::ModRevision(revision));
        Self { result: 0, target: 2, key, target_union }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CompactionResponse {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchRequest {
    #[prost(oneof = "WatchUnion", tags = "1, 2, 3")]
    pub(super) union: Option<WatchUnion>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "2")]
    Cancel(WatchCancelRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(bool, tag = "4")]
    pub(super) progress_notify: bool,
    #[prost(int64, tag = "7")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchCancelRequest {
    #[prost(int64, tag = "1")]
    pub(super) watch_id: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub(super) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Event {
    /// 0 is a put, 1 a delete.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

/// The revision of a header.
pub(super) fn revision(header: Option<ResponseHeader>) -> i64 {
    header.map_or(0, |header| header.revision)
}
