//! The allocator of the system, counting while it is asked to.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use logue_bench::HeapUse;

/// Counts allocations and bytes.
pub(crate) struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
/// Bytes held, on top of a base that what was held before cannot use up.
static HELD: AtomicUsize = AtomicUsize::new(BASE);
static PEAK: AtomicUsize = AtomicUsize::new(BASE);
const BASE: usize = usize::MAX / 2;

/// What `job` does to the heap.
pub(crate) fn count(job: &mut dyn FnMut()) -> HeapUse {
    ALLOCATIONS.store(0, Relaxed);
    HELD.store(BASE, Relaxed);
    PEAK.store(BASE, Relaxed);
    ON.store(true, Relaxed);
    job();
    ON.store(false, Relaxed);
    HeapUse {
        allocations: ALLOCATIONS.load(Relaxed),
        peak: PEAK.load(Relaxed) - BASE,
    }
}

fn grows(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Relaxed);
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(held, Relaxed);
}

#[expect(unsafe_code, reason = "nothing else sees every allocation")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ON.load(Relaxed) {
            grows(layout.size());
        }
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if ON.load(Relaxed) {
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if ON.load(Relaxed) {
            grows(size);
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.realloc(place, layout, size) }
    }
}
