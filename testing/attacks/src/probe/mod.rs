//! Actions of a hostile program, run as the command of a tool.

mod resources;
mod server;
mod sockets;

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::{Mode, XattrFlags};

/// Runs the action that the arguments name; fails if it was prevented.
pub(crate) fn main(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match act(&words) {
        Ok(text) => {
            drop(writeln!(io::stdout(), "{text}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            drop(writeln!(io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

fn act(words: &[&str]) -> io::Result<String> {
    let (action, rest) = words.split_first().unwrap_or((&"", &[]));
    let done = |result: io::Result<()>| result.map(|()| "done".to_owned());
    match (*action, rest) {
        ("mcp", [scenario]) => {
            testkit::mcp::serve_stdio(scenario);
            Ok(String::new())
        }
        ("mcp-file", [path]) => done(server::serve(Path::new(path))),
        ("read", [path]) => fs::read_to_string(path),
        ("write", [path]) => done(fs::write(path, "written")),
        ("truncate", [path]) => {
            done(rustix_result(nix::unistd::truncate(*path, 0)).or_else(|_| {
                File::options()
                    .write(true)
                    .truncate(true)
                    .open(path)
                    .map(drop)
            }))
        }
        ("remove", [path]) => done(fs::remove_file(path)),
        ("link", [from, to]) => {
            done(fs::hard_link(from, to).and_then(|()| fs::write(to, "written")))
        }
        ("swap", [path, target]) => done(swap(Path::new(path), target)),
        ("tcp", [address]) => {
            done(TcpStream::connect(address).and_then(|mut to| to.write_all(b"hello")))
        }
        ("udp", [address]) => done(
            UdpSocket::bind("127.0.0.1:0")
                .and_then(|from| from.send_to(b"hello", address).map(drop)),
        ),
        ("stream-socket" | "abstract-socket" | "datagram-socket" | "pair-socket", [name]) => {
            done(sockets::send(action, name))
        }
        ("kill", [pid]) => done(rustix_result(kill(process(pid)?, Signal::SIGKILL))),
        ("trace", [pid]) => {
            rustix_result(nix::sys::ptrace::seize(
                process(pid)?,
                nix::sys::ptrace::Options::empty(),
            ))?;
            rustix_result(kill(process(pid)?, Signal::SIGKILL)).ok();
            done(fs::write("traced", ""))
        }
        ("environment", [pid]) => fs::read(format!("/proc/{pid}/environ"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ("chmod", [path]) => done(Ok(rustix::fs::chmod(*path, Mode::from_raw_mode(0o777))?)),
        ("times", [path]) => done(times(path)),
        ("attribute", [path]) => done(Ok(rustix::fs::setxattr(
            *path,
            "user.attack",
            b"x",
            XattrFlags::empty(),
        )?)),
        ("chown", [path]) => {
            let (user, group) = (
                rustix::fs::Uid::from_raw(12345),
                rustix::fs::Gid::from_raw(12345),
            );
            done(Ok(rustix::fs::chown(*path, Some(user), Some(group))?))
        }
        ("fill", [folder, files]) => done(fill(Path::new(folder), files)),
        ("forks", [count, mark]) => done(forks(count, mark)),
        ("daemon", [mark]) => done(daemon(mark)),
        ("sleep", [mark]) => done(sleeper(mark)?.wait().map(drop)),
        _ => match resources::act(words) {
            Some(acted) => done(acted),
            None => Err(io::Error::other(format!("unknown action {words:?}"))),
        },
    }
}

fn rustix_result<T>(result: nix::Result<T>) -> io::Result<T> {
    result.map_err(io::Error::from)
}

fn process(pid: &str) -> io::Result<Pid> {
    pid.parse().map(Pid::from_raw).map_err(io::Error::other)
}

/// Replaces a folder by a link.
fn swap(path: &Path, target: &str) -> io::Result<()> {
    if path.exists() {
        fs::rename(path, path.with_extension("old"))?;
    }
    symlink(target, path)
}

/// Sets the times of a file by its name, without opening it.
fn times(path: &str) -> io::Result<()> {
    let past = rustix::fs::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: past,
        last_modification: past,
    };
    let flags = rustix::fs::AtFlags::empty();
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, flags)?)
}

/// Writes files of 8 MiB each until it is prevented.
fn fill(folder: &Path, files: &str) -> io::Result<()> {
    let count: u32 = files.parse().map_err(io::Error::other)?;
    let block = vec![b'x'; 1024 * 1024];
    for number in 0..count {
        let mut file = File::create(folder.join(format!("fill-{number}")))?;
        for _ in 0..8 {
            file.write_all(&block)?;
        }
    }
    Ok(())
}

/// Starts a process that is found by its arguments.
fn sleeper(mark: &str) -> io::Result<std::process::Child> {
    Command::new("sleep")
        .arg(mark)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Starts processes as fast as possible, and keeps them for a second.
fn forks(count: &str, mark: &str) -> io::Result<()> {
    let count: u32 = count.parse().map_err(io::Error::other)?;
    let (started, mut children) = (SystemTime::now(), Vec::new());
    for _ in 0..count {
        // A refused process is tried again, as by a fork bomb.
        children.extend(sleeper(mark).ok());
        if started.elapsed().unwrap_or_default() > Duration::from_secs(5) {
            break;
        }
    }
    std::thread::sleep(Duration::from_secs(1));
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// Leaves a process in a session of its own, whose parents have ended.
fn daemon(mark: &str) -> io::Result<()> {
    let script =
        format!("trap '' TERM HUP INT; (setsid sleep {mark} &) ; setsid sleep {mark} & exit 0");
    let status = Command::new("setsid")
        .args(["sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other("no daemon"))
    }
}
