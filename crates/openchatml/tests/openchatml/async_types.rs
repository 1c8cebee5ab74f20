//! Values that cross threads and await points are `Send` and `Sync`.

use openchatml::scan::TokenScanner;
use openchatml::stream::{ResponseEventMapper, Stream};
use openchatml::{
    Document, FrameBuf, OwnedDocument, OwnedFrame, StrictError, Transcript, harmony, v0_1,
};

const fn assert_send_sync<T: Send + Sync>() {}

#[test]
fn documents_and_streams_are_send_and_sync() {
    assert_send_sync::<Document<'static>>();
    assert_send_sync::<OwnedDocument>();
    assert_send_sync::<OwnedFrame>();
    assert_send_sync::<StrictError<'static>>();
    assert_send_sync::<FrameBuf>();
    assert_send_sync::<Transcript>();
    assert_send_sync::<Stream>();
    assert_send_sync::<ResponseEventMapper>();
    assert_send_sync::<TokenScanner>();
    assert_send_sync::<harmony::Stream>();
    assert_send_sync::<harmony::IdStream>();
    assert_send_sync::<harmony::HarmonyDocument>();
    assert_send_sync::<v0_1::Stream>();
    assert_send_sync::<v0_1::LegacyDocument<'static>>();
}
