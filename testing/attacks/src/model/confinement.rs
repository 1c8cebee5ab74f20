//! Commands that reach for files, networks and sockets outside their sandbox.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::attack::{Arena, Attack, Outcome, promise, skip};
use crate::model::escape::{Turn, escape, owned, turn};
use crate::scene::{SECRET, Scene, tree};

const FILES: &str = "a command reads no file outside its folders";
const WRITES: &str = "a command changes no file outside its folders";
const SERVICES: &str = "a command reaches no socket of a service";
const NETWORK: &str = "a command has no network";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("sandbox-read-home", FILES, read_home).confined(),
    Attack::model("sandbox-read-proc-root", FILES, read_by_proc).confined(),
    Attack::model("sandbox-read-tmp", FILES, read_tmp).confined(),
    Attack::model("sandbox-write-outside", WRITES, write_outside).confined(),
    Attack::model("sandbox-write-tmp", WRITES, write_tmp).confined(),
    Attack::model("sandbox-truncate", WRITES, truncate).confined(),
    Attack::model("sandbox-remove", WRITES, remove).confined(),
    Attack::model("sandbox-hard-link", WRITES, hard_link).confined(),
    Attack::model("sandbox-chmod", WRITES, chmod).confined(),
    Attack::model("sandbox-times", WRITES, times).confined(),
    Attack::model("sandbox-attribute", WRITES, attribute).confined(),
    Attack::model("sandbox-chown", WRITES, chown).confined(),
    Attack::model("sandbox-disk", "a command fills no disk", disk).confined(),
    Attack::model("sandbox-tcp", NETWORK, tcp).confined(),
    Attack::model("sandbox-udp", NETWORK, udp).confined(),
    Attack::model("sandbox-socket-path", SERVICES, stream_socket).confined(),
    Attack::model("sandbox-socket-in-folder", SERVICES, socket_in_folder).confined(),
    Attack::model("sandbox-socket-abstract", SERVICES, abstract_socket).confined(),
    Attack::model("sandbox-socket-datagram", SERVICES, datagram_socket).confined(),
    Attack::model("sandbox-socket-pair", SERVICES, pair_socket).confined(),
];

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn reads(arena: &Arena, path: impl Fn(&Scene) -> PathBuf) -> Outcome {
    escape(
        arena,
        |scene| Ok(owned(["read", &text(&path(scene))])),
        |turn| turn.traffic().contains(SECRET),
    )
}

fn read_home(arena: &Arena) -> Outcome {
    reads(arena, |scene| scene.home().join("id_rsa"))
}

fn read_by_proc(arena: &Arena) -> Outcome {
    reads(arena, |scene| {
        PathBuf::from(format!(
            "/proc/self/root{}",
            text(&scene.outside().join("id_rsa"))
        ))
    })
}

fn read_tmp(arena: &Arena) -> Outcome {
    let file = tempfile::NamedTempFile::new()?;
    fs::write(file.path(), SECRET)?;
    reads(arena, |_| file.path().to_owned())
}

/// Runs an action on the secret file outside.
fn changes(arena: &Arena, action: &str, is_changed: impl Fn(&Path) -> bool) -> Outcome {
    escape(
        arena,
        |scene| Ok(owned([action, &text(&scene.outside().join("id_rsa"))])),
        |turn| is_changed(&turn.scene.outside().join("id_rsa")),
    )
}

fn write_outside(arena: &Arena) -> Outcome {
    changes(arena, "write", |path| {
        fs::read(path).ok().as_deref() != Some(SECRET.as_bytes())
    })?;
    escape(
        arena,
        |scene| Ok(owned(["write", &text(&scene.outside().join("new"))])),
        |turn| turn.scene.outside().join("new").exists(),
    )
}

fn write_tmp(arena: &Arena) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("new");
    escape(
        arena,
        |_| {
            drop(fs::remove_file(&path));
            Ok(owned(["write", &text(&path)]))
        },
        |_| path.exists(),
    )
}

fn truncate(arena: &Arena) -> Outcome {
    changes(arena, "truncate", |path| {
        fs::metadata(path).is_ok_and(|file| file.len() == 0)
    })
}

fn remove(arena: &Arena) -> Outcome {
    changes(arena, "remove", |path| !path.exists())
}

fn hard_link(arena: &Arena) -> Outcome {
    escape(
        arena,
        |scene| {
            let from = text(&scene.outside().join("id_rsa"));
            Ok(owned(["link", &from, &text(&scene.work().join("mine"))]))
        },
        |turn| {
            let path = turn.scene.outside().join("id_rsa");
            fs::read(path).ok().as_deref() != Some(SECRET.as_bytes())
        },
    )
}

fn chmod(arena: &Arena) -> Outcome {
    changes(arena, "chmod", |path| {
        fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o777 == 0o777)
    })
}

fn times(arena: &Arena) -> Outcome {
    changes(arena, "times", |path| {
        fs::metadata(path).is_ok_and(|file| file.mtime() == 1)
    })
}

fn attribute(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    let path = scene.outside().join("id_rsa");
    let flags = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(&path, "user.test", b"x", flags).is_err() {
        return skip("the file system has no attributes");
    }
    changes(arena, "attribute", |path| {
        rustix::fs::getxattr(path, "user.attack", &mut [0_u8; 8][..]).is_ok()
    })
}

fn chown(arena: &Arena) -> Outcome {
    if !rustix::process::geteuid().is_root() {
        return skip("needs root");
    }
    changes(arena, "chown", |path| {
        fs::metadata(path).is_ok_and(|file| file.uid() == 12345)
    })
}

fn disk(arena: &Arena) -> Outcome {
    let size = |turn: &Turn| -> usize {
        tree(turn.scene.root())
            .iter()
            .map(|(_, bytes)| bytes.len())
            .sum()
    };
    let scene = Scene::new(arena)?;
    scene.configure("max_file_mib = 16\nmax_disk_mib = 32\n", "")?;
    let folder = text(&scene.work());
    let turn = turn(scene, &[owned(["fill", &folder, "64"])])?;
    let mib = size(&turn) / 1024 / 1024;
    // The space is checked periodically, so a fast command exceeds the limit for a moment.
    promise(mib < 320, format!("{mib} MiB were written"))
}

fn tcp(arena: &Arena) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    escape(
        arena,
        |_| Ok(owned(["tcp", &address])),
        |_| listener.accept().is_ok(),
    )
}

fn udp(arena: &Arena) -> Outcome {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let address = socket.local_addr()?.to_string();
    escape(
        arena,
        |_| Ok(owned(["udp", &address])),
        |_| socket.recv(&mut [0; 16]).is_ok(),
    )
}

/// Listens at a path and lets the command connect to it.
fn connects(arena: &Arena, place: impl Fn(&Scene) -> PathBuf) -> Outcome {
    let listener = std::cell::RefCell::new(None);
    escape(
        arena,
        |scene| {
            let path = place(scene);
            let bound = UnixListener::bind(&path)?;
            bound.set_nonblocking(true)?;
            *listener.borrow_mut() = Some(bound);
            Ok(owned(["stream-socket", &text(&path)]))
        },
        |_| {
            let listener = listener.borrow();
            listener
                .as_ref()
                .is_some_and(|bound| bound.accept().is_ok())
        },
    )
}

fn stream_socket(arena: &Arena) -> Outcome {
    connects(arena, |scene| scene.outside().join("docker.sock"))
}

fn socket_in_folder(arena: &Arena) -> Outcome {
    connects(arena, |scene| scene.work().join("docker.sock"))
}

fn abstract_socket(arena: &Arena) -> Outcome {
    let name = format!("attack-{}-{:?}", std::process::id(), arena.confinement);
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    listener.set_nonblocking(true)?;
    escape(
        arena,
        |_| Ok(owned(["abstract-socket", &name])),
        |_| listener.accept().is_ok(),
    )
}

/// Binds a datagram socket in the folder of the prompt and lets the command send to it.
fn sends(arena: &Arena, action: &str) -> Outcome {
    let receiver = std::cell::RefCell::new(None);
    escape(
        arena,
        |scene| {
            let path = scene.work().join("log.sock");
            let bound = UnixDatagram::bind(&path)?;
            bound.set_nonblocking(true)?;
            *receiver.borrow_mut() = Some(bound);
            Ok(owned([action, &text(&path)]))
        },
        |_| {
            let receiver = receiver.borrow();
            receiver
                .as_ref()
                .is_some_and(|bound| bound.recv(&mut [0; 16]).is_ok())
        },
    )
}

fn datagram_socket(arena: &Arena) -> Outcome {
    sends(arena, "datagram-socket")
}

fn pair_socket(arena: &Arena) -> Outcome {
    sends(arena, "pair-socket")
}
