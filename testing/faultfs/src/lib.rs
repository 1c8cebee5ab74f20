//! A preloaded library that makes selected file operations of a program fail.
//!
//! It is loaded with `LD_PRELOAD` and configured by the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `FAULTFS_UNDER` | only files below this directory count |
//! | `FAULTFS_AT` | the operation that fails, counted from 1; without it nothing fails |
//! | `FAULTFS_FOR` | the number of consecutive failures; the default is 1 |
//! | `FAULTFS_HOW` | `EIO`, `ENOSPC`, `short`, `torn` or `die` |
//! | `FAULTFS_LOG` | a file to which each operation that counts is appended as a line |
//! | `FAULTFS_FULL` | a file; while it exists, writes that enlarge a file below the directory fail with `ENOSPC` |
//!
//! Operations that count are `write`, `pwrite`, `pwritev`, `fsync`, `fdatasync`, `ftruncate`, `rename`, `link` and
//! `unlink`, with their variants for names in a directory. A `short` write writes half of its bytes and returns that number. A `torn` one writes half
//! of them and ends the process; `die` ends the process before the operation. Operations other than
//! writes fail with `EIO` for `short`, and so does `pwritev` for `short` and `torn`.
//!
//! The full disk of `FAULTFS_FULL` resembles a real one: files are overwritten in place and removed, and
//! empty ones are created. A real one may write the first part of a block, and may refuse new names.
//!
//! It permits `unsafe` code: it implements functions of the C library by calling the next ones of that
//! name.
#![cfg(target_os = "linux")]
#![warn(missing_docs)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libc::{iovec, off_t, size_t, ssize_t};

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Error(c_int),
    Short,
    Torn,
    Die,
}

struct Plan {
    under: PathBuf,
    at: u64,
    last: u64,
    how: How,
    log: Option<PathBuf>,
    full: Option<PathBuf>,
}

static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Writing the log is a write too.
static LOGGING: AtomicBool = AtomicBool::new(false);

fn plan() -> Option<&'static Plan> {
    PLAN.get_or_init(|| {
        let under = PathBuf::from(std::env::var_os("FAULTFS_UNDER")?);
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let at = number("FAULTFS_AT").unwrap_or(u64::MAX);
        let how = match std::env::var("FAULTFS_HOW").as_deref() {
            Ok("ENOSPC") => How::Error(libc::ENOSPC),
            Ok("short") => How::Short,
            Ok("torn") => How::Torn,
            Ok("die") => How::Die,
            _ => How::Error(libc::EIO),
        };
        Some(Plan {
            under,
            at,
            last: at.saturating_add(number("FAULTFS_FOR").unwrap_or(1)),
            how,
            log: std::env::var_os("FAULTFS_LOG").map(PathBuf::from),
            full: std::env::var_os("FAULTFS_FULL").map(PathBuf::from),
        })
    })
    .as_ref()
}

/// Counts an operation on a file; says how it is to fail, if it is.
fn fault(name: &str, path: &Path) -> Option<How> {
    if LOGGING.load(Ordering::Relaxed) {
        return None;
    }
    let plan = plan()?;
    if !path.starts_with(&plan.under) {
        return None;
    }
    let number = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(log) = &plan.log {
        LOGGING.store(true, Ordering::Relaxed);
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log);
        if let Ok(mut file) = file {
            drop(writeln!(file, "{number} {name} {}", path.display()));
        }
        LOGGING.store(false, Ordering::Relaxed);
    }
    (plan.at..plan.last).contains(&number).then_some(plan.how)
}

fn path_of(fd: c_int) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()
}

fn path_from(text: *const c_char) -> Option<PathBuf> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller of the C library's function promises a text that ends with a NUL.
    let text = unsafe { CStr::from_ptr(text) };
    std::path::absolute(OsStr::from_bytes(text.to_bytes())).ok()
}

/// The path of a name below an open directory.
fn path_at(folder: c_int, text: *const c_char) -> Option<PathBuf> {
    let path = path_from(text)?;
    if folder == libc::AT_FDCWD || text.is_null() {
        return Some(path);
    }
    // SAFETY: as in `path_from`.
    let name = unsafe { CStr::from_ptr(text) };
    Some(path_of(folder)?.join(OsStr::from_bytes(name.to_bytes())))
}

fn fail(error: c_int) {
    // SAFETY: the place of this thread's error number is always valid.
    unsafe { *libc::__errno_location() = error }
}

fn die() -> ! {
    // SAFETY: ends the process as a power cut would: nothing is flushed, no destructor runs.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(137)
    }
}

/// The function of that name that would have been called without this library.
macro_rules! next {
    ($name:literal, $kind:ty) => {{
        static NEXT: OnceLock<usize> = OnceLock::new();
        let address = *NEXT.get_or_init(|| {
            // SAFETY: the name is a text that ends with a NUL.
            unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) as usize }
        });
        // SAFETY: the C library has a function of this name and kind.
        unsafe { std::mem::transmute::<usize, $kind>(address) }
    }};
}

type Write = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
type Pwrite = unsafe extern "C" fn(c_int, *const c_void, size_t, off_t) -> ssize_t;
type Pwritev = unsafe extern "C" fn(c_int, *const iovec, c_int, off_t) -> ssize_t;
type OfFile = unsafe extern "C" fn(c_int) -> c_int;
type Truncate = unsafe extern "C" fn(c_int, off_t) -> c_int;
type OfPath = unsafe extern "C" fn(*const c_char) -> c_int;
type Link = unsafe extern "C" fn(c_int, *const c_char, c_int, *const c_char, c_int) -> c_int;
type Rename = unsafe extern "C" fn(c_int, *const c_char, c_int, *const c_char) -> c_int;
type Unlink = unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int;
type OfPaths = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;

/// Returns whether a write must fail because the disk counts as full.
///
/// Without an offset, the write begins at the position of the file.
fn is_full(path: &Path, fd: c_int, count: size_t, offset: Option<off_t>) -> bool {
    let Some(plan) = plan().filter(|plan| path.starts_with(&plan.under)) else {
        return false;
    };
    if !plan.full.as_ref().is_some_and(|switch| switch.exists()) {
        return false;
    }
    // SAFETY: queries of a descriptor's state; an invalid one yields an error. The result of `fstat` is
    // read only if it succeeded.
    let (size, begin) = unsafe {
        let mut state = std::mem::MaybeUninit::<libc::stat>::uninit();
        if libc::fstat(fd, state.as_mut_ptr()) != 0 {
            return false;
        }
        let size = state.assume_init().st_size;
        let appends = libc::fcntl(fd, libc::F_GETFL) & libc::O_APPEND != 0;
        let position = || {
            if appends {
                size
            } else {
                libc::lseek(fd, 0, libc::SEEK_CUR)
            }
        };
        (size, offset.unwrap_or_else(position))
    };
    let count = off_t::try_from(count).unwrap_or(off_t::MAX);
    begin.saturating_add(count) > size
}

/// Writes as much as the fault allows.
fn written(
    name: &str,
    fd: c_int,
    count: size_t,
    offset: Option<off_t>,
    write: impl Fn(size_t) -> ssize_t,
) -> ssize_t {
    let Some(path) = path_of(fd) else {
        return write(count);
    };
    if is_full(&path, fd, count, offset) {
        fail(libc::ENOSPC);
        return -1;
    }
    let Some(how) = fault(name, &path) else {
        return write(count);
    };
    match how {
        How::Error(error) => {
            fail(error);
            -1
        }
        How::Short if count > 1 => write(count / 2),
        How::Short => {
            fail(libc::EIO);
            -1
        }
        How::Torn => {
            write(count / 2);
            die()
        }
        How::Die => die(),
    }
}

/// Runs an operation other than a write, unless it must fail.
fn done(how: Option<How>, act: impl Fn() -> c_int) -> c_int {
    match how {
        None => act(),
        Some(How::Error(error)) => {
            fail(error);
            -1
        }
        Some(How::Short) => {
            fail(libc::EIO);
            -1
        }
        Some(How::Torn | How::Die) => die(),
    }
}

/// See `write(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    let next = next!(c"write", Write);
    // SAFETY: the caller's promises, for at most as many bytes.
    written("write", fd, count, None, |count| unsafe {
        next(fd, buffer, count)
    })
}

/// See `pwrite(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    let next = next!(c"pwrite", Pwrite);
    // SAFETY: the caller's promises, for at most as many bytes.
    written("pwrite", fd, count, Some(offset), |count| unsafe {
        next(fd, buffer, count, offset)
    })
}

/// See `pwrite(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    buffer: *const c_void,
    count: size_t,
    offset: off_t,
) -> ssize_t {
    let next = next!(c"pwrite64", Pwrite);
    // SAFETY: the caller's promises, for at most as many bytes.
    written("pwrite", fd, count, Some(offset), |count| unsafe {
        next(fd, buffer, count, offset)
    })
}

/// See `pwritev(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(
    fd: c_int,
    buffers: *const iovec,
    buffer_count: c_int,
    offset: off_t,
) -> ssize_t {
    let next = next!(c"pwritev", Pwritev);
    // SAFETY: the caller promises as many buffers.
    let parts =
        unsafe { std::slice::from_raw_parts(buffers, usize::try_from(buffer_count).unwrap_or(0)) };
    let count = parts.iter().map(|part| part.iov_len).sum();
    written("pwritev", fd, count, Some(offset), |allowed| {
        if allowed < count {
            fail(libc::EIO);
            return -1;
        }
        // SAFETY: the caller's promises.
        unsafe { next(fd, buffers, buffer_count, offset) }
    })
}

/// See `fsync(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    let next = next!(c"fsync", OfFile);
    let how = path_of(fd).and_then(|path| fault("fsync", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(fd) })
}

/// See `fdatasync(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    let next = next!(c"fdatasync", OfFile);
    let how = path_of(fd).and_then(|path| fault("fdatasync", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(fd) })
}

/// See `ftruncate(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, length: off_t) -> c_int {
    let next = next!(c"ftruncate64", Truncate);
    let how = path_of(fd).and_then(|path| fault("ftruncate", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(fd, length) })
}

/// See `rename(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let next = next!(c"rename", OfPaths);
    let how = path_from(to).and_then(|path| fault("rename", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(from, to) })
}

/// See `linkat(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    let next = next!(c"linkat", Link);
    let how = path_at(to_folder, to).and_then(|path| fault("link", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe {
        next(from_folder, from, to_folder, to, flags)
    })
}

/// See `renameat(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
) -> c_int {
    let next = next!(c"renameat", Rename);
    let how = path_at(to_folder, to).and_then(|path| fault("rename", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(from_folder, from, to_folder, to) })
}

/// See `unlinkat(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    let next = next!(c"unlinkat", Unlink);
    let how = path_at(folder, path).and_then(|path| fault("unlink", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(folder, path, flags) })
}

/// See `unlink(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    let next = next!(c"unlink", OfPath);
    let how = path_from(path).and_then(|path| fault("unlink", &path));
    // SAFETY: the caller's promises.
    done(how, || unsafe { next(path) })
}
