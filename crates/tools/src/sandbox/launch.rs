//! The launcher: a process between the program and a command that it runs.
//!
//! The launcher stays outside the sandbox. It reads a [`LaunchRequest`] from its standard input,
//! starts the command in a confined thread, waits for it, watches its resource usage, ends all
//! remaining processes and reports. If the requesting program exits or closes its end, everything
//! is ended at once, so a killed program leaves nothing running.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::fs::{Stat, fstat, stat};
use rustix::process::{Pid, Resource, Rlimit, WaitStatus, fchdir, setrlimit};

use super::descriptors::receive_line;
use super::filter::OpenCalls;
use super::protocol::{
    LaunchInput, LaunchRequest, LaunchResult, MAX_REQUEST_BYTES, Mounts, SandboxPolicy,
};
use super::watch::{Disk, Watch};
use super::{confine, filter, namespaces, process_tree};

/// The parent of private directories.
const PRIVATE: &str = "/tmp";

/// Runs the launcher until the command has ended.
pub(super) fn launch() -> ExitCode {
    if std::env::args_os()
        .nth(2)
        .is_some_and(|word| word == namespaces::PROBE_ARG)
    {
        return if namespaces::probe() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    close_inherited()?;
    // Signals and input of a terminal are for the program, not for its tools.
    let _ = rustix::process::setsid();
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (line, descriptors) = receive_line(&control, MAX_REQUEST_BYTES)?;
    let order: LaunchRequest = serde_json::from_slice(&line)?;
    let isolates = order.confinement.as_ref();
    let isolates = isolates.is_some_and(|it| it.mounts == Mounts::ReadOnly);
    let report = match (
        isolates.then(namespaces::permit_mounts).transpose(),
        process_tree::become_subreaper(),
    ) {
        (Ok(_), Ok(())) => carry_out(order, descriptors, &control),
        (Err(error), _) => LaunchResult::NotConfined(not_isolated(&error)),
        (_, Err(error)) => LaunchResult::NotStarted(format!("it could not be watched: {error}")),
    };
    let mut line = serde_json::to_vec(&report)?;
    line.push(b'\n');
    control.write_all(&line)
}

fn not_isolated(error: &io::Error) -> String {
    format!("it cannot have namespaces of its own: {error}")
}

/// Closes what the process that requests a command inherited from its own caller.
///
/// Nothing of this process is open yet but the standard streams.
fn close_inherited() -> io::Result<()> {
    let entries = std::fs::read_dir("/proc/self/fd")?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2).collect::<Vec<_>>() {
        // The directory that was read is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}

fn carry_out(
    order: LaunchRequest,
    descriptors: Vec<OwnedFd>,
    control: &UnixStream,
) -> LaunchResult {
    let needs_private = order.folder.is_none() || order.confinement.is_some();
    let private = match needs_private.then(Private::make).transpose() {
        Ok(private) => private,
        Err(error) => {
            return LaunchResult::NotStarted(format!("it has no private folder: {error}"));
        }
    };
    let limits = order.limits;
    // The limits apply to this process too, which needs few resources.
    let mut limited = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Data, limits.memory_bytes),
    ]
    .into_iter()
    .filter_map(|(resource, limit)| Some((resource, limit?)))
    .map(|(resource, limit)| lower(resource, limit));
    if let Some(Err(error)) = limited.find(Result::is_err) {
        return LaunchResult::NotStarted(format!("it could not be limited: {error}"));
    }
    let private_path = private.as_ref().map(|private| private.0.clone());
    let disk = limits.disk_bytes.map(|most| {
        let granted = order.confinement.as_ref().map(|it| &it.granted);
        let granted = granted.into_iter().flatten().zip(&descriptors);
        let writable = granted.filter(|(grant, _)| grant.writable);
        Disk::new(
            writable.map(|(_, descriptor)| descriptor),
            private_path.as_deref(),
            most,
        )
    });
    let mut child = match start(order, descriptors, private_path) {
        Ok(child) => child,
        Err(report) => return report,
    };
    feed(&mut child.0, child.1.take());
    let Some(pid) = i32::try_from(child.0.id()).ok().and_then(Pid::from_raw) else {
        return LaunchResult::NotStarted("it has no process id".to_owned());
    };
    let watch = Watch {
        pid,
        processes: limits.processes,
        memory: limits.memory_bytes,
        disk,
    };
    let (ended, stopped) = watch.until_the_end(control);
    if ended.is_some() {
        process_tree::settle(pid);
    }
    let (count, late) = process_tree::end(pid);
    let own = usize::from(ended.is_none());
    let status = ended.or(late);
    LaunchResult::Ended {
        code: status.and_then(WaitStatus::exit_status),
        signal: status.and_then(WaitStatus::terminating_signal),
        stopped,
        left: count.saturating_sub(own),
    }
}

/// Lowers a limit of this process.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let now = rustix::process::getrlimit(resource);
    let least = |had: Option<u64>| Some(had.map_or(limit, |had| had.min(limit)));
    let new = Rlimit {
        current: least(now.current),
        maximum: least(now.maximum),
    };
    Ok(setrlimit(resource, new)?)
}

/// Starts the command from a confined thread.
///
/// The thread ends; the confinement of the command remains.
fn start(
    order: LaunchRequest,
    mut descriptors: Vec<OwnedFd>,
    private: Option<PathBuf>,
) -> Result<(Child, Option<String>), LaunchResult> {
    let starting = std::thread::spawn(move || {
        let LaunchRequest {
            words,
            folder,
            environment,
            input,
            limits: _,
            confinement,
        } = order;
        let Some((program, arguments)) = words.split_first() else {
            return Err(LaunchResult::NotStarted("no command was given".to_owned()));
        };
        let (stdin, text) = match input {
            LaunchInput::Empty => (Stdio::null(), None),
            LaunchInput::Text(text) => (Stdio::piped(), Some(text)),
            LaunchInput::Descriptor => match descriptors.pop() {
                Some(descriptor) => (Stdio::from(descriptor), None),
                None => return Err(LaunchResult::NotStarted("its input is missing".to_owned())),
            },
        };
        // A private directory exists whenever it is needed.
        let private = private.as_deref().unwrap_or(Path::new("/"));
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(environment)
            .stdin(stdin)
            // Signals to its own group do not reach the launcher.
            .process_group(0);
        if let Some(confinement) = &confinement
            && confinement.mounts == Mounts::ReadOnly
        {
            isolate(confinement, &descriptors, private)?;
        }
        let folder = folder.as_deref().map_or(private, Path::new);
        match opened(confinement.as_ref(), &descriptors, folder)? {
            // The descriptor, because the path may lead elsewhere by now.
            Some(opened) => {
                fchdir(opened).map_err(|error| LaunchResult::NotStarted(error.to_string()))?;
            }
            None => {
                command.current_dir(folder);
            }
        }
        if let Some(confinement) = &confinement {
            enter(confinement, &descriptors, private).map_err(LaunchResult::NotConfined)?;
            let folders = ["TMPDIR", "TEMP", "TMP"];
            command.envs(folders.into_iter().map(|name| (name, private)));
            if !confinement.home {
                command.env("HOME", private);
            }
        }
        match command.spawn() {
            Ok(child) => Ok((child, text)),
            Err(error) => Err(LaunchResult::NotStarted(error.to_string())),
        }
    });
    let gone = || LaunchResult::NotStarted("the launcher failed".to_owned());
    starting.join().unwrap_or_else(|_| Err(gone()))
}

fn enter(
    confinement: &SandboxPolicy,
    descriptors: &[OwnedFd],
    private: &Path,
) -> Result<(), String> {
    if confinement.mounts == Mounts::Granted {
        check_mounted(confinement, descriptors)?;
    }
    confine::restrict(confinement, descriptors, private)?;
    confine::drop_privileges()?;
    if filter::is_possible() {
        filter::apply(OpenCalls {
            network: confinement.network,
            // They have a namespace as well then.
            objects: confinement.mounts != Mounts::Shared,
        })?;
    }
    Ok(())
}

/// Makes everything but the writable paths read-only for this thread.
fn isolate(
    confinement: &SandboxPolicy,
    descriptors: &[OwnedFd],
    private: &Path,
) -> Result<(), LaunchResult> {
    let granted = confinement.granted.iter().zip(descriptors);
    let writable = granted.filter(|(grant, _)| grant.writable);
    namespaces::isolate(writable.map(|(_, descriptor)| descriptor), private)
        .map_err(|error| LaunchResult::NotConfined(not_isolated(&error)))
}

/// Returns a descriptor of a granted directory, unless bubblewrap mounted it.
fn opened(
    confinement: Option<&SandboxPolicy>,
    descriptors: &[OwnedFd],
    folder: &Path,
) -> Result<Option<OwnedFd>, LaunchResult> {
    let Some(confinement) = confinement.filter(|it| it.mounts != Mounts::Granted) else {
        return Ok(None);
    };
    let mut granted = confinement.granted.iter().zip(descriptors);
    let found = granted.find(|(grant, _)| Path::new(&grant.path) == folder);
    let Some((_, descriptor)) = found else {
        return Ok(None);
    };
    let opened = if confinement.mounts == Mounts::ReadOnly {
        // The descriptor leads past the mounts of this thread.
        namespaces::locate(descriptor).map(|located| located.handle)
    } else {
        descriptor.try_clone().ok()
    };
    let moved = || LaunchResult::NotStarted("its directory was removed or moved".to_owned());
    opened.map(Some).ok_or_else(moved)
}

/// Checks that bubblewrap, which looks paths up by name, mounted what is open.
fn check_mounted(confinement: &SandboxPolicy, descriptors: &[OwnedFd]) -> Result<(), String> {
    for (grant, descriptor) in confinement.granted.iter().zip(descriptors) {
        let path = Path::new(&grant.path);
        let id = |stat: Stat| (stat.st_dev, stat.st_ino);
        let mounted = stat(path).map(id);
        if mounted.is_err() || mounted != fstat(descriptor).map(id) {
            let path = path.display();
            return Err(format!(
                "{path}: something else was put there during the run"
            ));
        }
    }
    Ok(())
}

/// Writes the input of the command. A command that does not read it must not block the launcher.
fn feed(child: &mut Child, input: Option<String>) {
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        drop(std::thread::spawn(move || {
            // A command that ends before it has read everything closes the pipe.
            drop(stdin.write_all(input.as_bytes()));
        }));
    }
}

/// A private directory that is removed on drop.
struct Private(PathBuf);

impl Private {
    fn make() -> io::Result<Self> {
        let mut name = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut name)?;
        let folder = format!("{PRIVATE}/logue-{:016x}", u64::from_le_bytes(name));
        // An existing directory of that name is an error.
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self(PathBuf::from(folder)))
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Files that the command made unreadable remain; they belong to the same user.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
