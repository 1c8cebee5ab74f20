//! System calls and descriptors that lead past the rules for files.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};

use logue_tools::sandbox::{Protection, SandboxMode};

use crate::sandbox::{modes, options, sh};

/// Runs Python code outside of the sandbox and returns what it prints.
fn python(code: &str) -> String {
    let output = Command::new("python3").args(["-c", code]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Runs Python code in a sandbox and returns what the model gets.
async fn confined(mode: SandboxMode, network: bool, code: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("code.py"), code).unwrap();
    let mut options = options(mode);
    options.sandbox.network = network;
    let result = sh(folder.path(), "python3 code.py", options).await;
    result.text
}

#[tokio::test]
async fn pairs_of_datagrams_reach_no_service() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service");
    let by_path = UnixDatagram::bind(&path).unwrap();
    let name = format!("logue-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
    let by_name = UnixDatagram::bind_addr(&abstract_name).unwrap();
    let code = format!(
        "import socket\n\
         for kind in [socket.SOCK_DGRAM, socket.SOCK_RAW, 0x80000 | socket.SOCK_DGRAM]:\n \
          for to in [{path:?}, '\\0{name}']:\n  \
           for act in ['sendto', 'connect']:\n   \
            try:\n    \
             one, other = socket.socketpair(socket.AF_UNIX, kind)\n    \
             if act == 'sendto': one.sendto(b'x', to)\n    \
             else: one.connect(to); one.send(b'x')\n    \
             print('REACHED', kind, act)\n   \
            except OSError as error: print(error)\n\
         for kind in [socket.SOCK_STREAM, socket.SOCK_SEQPACKET]:\n \
          one, other = socket.socketpair(socket.AF_UNIX, kind)\n \
          one.send(b'hi'); print(other.recv(9).decode())\n \
          try: one.sendto(b'x', {path:?})\n \
          except OSError as error: print(error)\n \
          try: one.connect({path:?}); print('REACHED')\n \
          except OSError as error: print(error)\n\
         import asyncio; asyncio.run(asyncio.sleep(0)); print('ENDED')\n",
        path = path.display().to_string(),
    );
    for mode in modes() {
        let text = confined(mode, false, &code).await;
        for socket in [&by_path, &by_name] {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 8]).is_err(), "{mode:?}: {text}");
        }
        assert!(!text.contains("REACHED"), "{mode:?}: {text}");
        assert_eq!(text.matches("hi\n").count(), 2, "{mode:?}: {text}");
        assert!(text.contains("ENDED"), "{mode:?}: {text}");
    }
}

#[tokio::test]
async fn descriptors_of_the_caller_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    fs::write(&path, "token-of-the-user").unwrap();
    let secret = File::open(&path).unwrap();
    let written = File::create(folder.path().join("written")).unwrap();
    for file in [&secret, &written] {
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).unwrap();
    }
    let code = "import os\n\
         for fd in os.listdir('/proc/self/fd'):\n \
          for act in [lambda: print(os.pread(int(fd), 99, 0)), lambda: os.write(int(fd), b'x')]:\n  \
           if int(fd) > 2:\n   \
            try: act()\n   \
            except OSError as error: print(error)\n\
         print('ENDED')\n";
    for mode in modes().into_iter().chain([SandboxMode::Off]) {
        let text = confined(mode, false, code).await;
        assert!(!text.contains("token"), "{mode:?}: {text}");
        assert!(text.contains("ENDED"), "{mode:?}: {text}");
        assert_eq!(written.metadata().unwrap().len(), 0, "{mode:?}");
    }
}

/// Creates objects of the kernel outside, and returns code that reaches for each of them.
struct Objects {
    ids: String,
}

const LIBRARY: &str = "import ctypes, os\n\
     libc = ctypes.CDLL(None, use_errno=True)\n\
     libc.shmat.restype = ctypes.c_void_p\n";

impl Objects {
    fn new(key: u32) -> Self {
        let ids = python(&format!(
            "{LIBRARY}\
             shm = libc.shmget({key}, 64, 0o1666)\n\
             place = libc.shmat(shm, None, 0)\n\
             ctypes.memmove(place, b'SECRET', 6)\n\
             queue = libc.msgget({key}, 0o1666)\n\
             libc.msgsnd(queue, ctypes.c_char_p(b'\\1' + bytes(7) + b'SECRET'), 6, 0)\n\
             posix = libc.mq_open(b'/logue-{key}', 0o102, 0o666, None)\n\
             libc.mq_send(posix, b'SECRET', 6, 0)\n\
             libc.syscall({add_key}, b'user', b'logue-{key}', b'SECRET', 6, -4)\n\
             print(shm, queue)\n",
            add_key = call_number("add_key"),
        ));
        Self { ids }
    }

    /// Code that prints what it reads of the objects, by key and by number.
    fn attempts(&self, key: u32) -> String {
        let (shm, queue) = self.ids.split_once(' ').unwrap();
        format!(
            "{LIBRARY}\
             def memory(number):\n \
              place = libc.shmat(number, None, 0)\n \
              return ctypes.string_at(place, 6) if place not in (None, 2**64 - 1) else b''\n\
             def message(number):\n \
              space = ctypes.create_string_buffer(64)\n \
              libc.msgrcv(number, space, 50, 0, 0o4000)\n \
              return space.raw\n\
             def posix():\n \
              space = ctypes.create_string_buffer(10000)\n \
              libc.mq_receive(libc.mq_open(b'/logue-{key}', 0o4000), space, 10000, None)\n \
              return space.raw[:9]\n\
             def key():\n \
              space = ctypes.create_string_buffer(64)\n \
              found = libc.syscall({keyctl}, 10, -4, b'user', b'logue-{key}', 0)\n \
              libc.syscall({keyctl}, 11, found, space, 64)\n \
              return space.raw\n\
             for reach in [lambda: memory({shm}), lambda: memory(libc.shmget({key}, 0, 0)),\n  \
              lambda: message({queue}), lambda: message(libc.msgget({key}, 0)), posix, key]:\n \
              print(b'SECRET' in reach())\n",
            keyctl = call_number("keyctl"),
        )
    }
}

fn call_number(name: &str) -> u32 {
    match (name, cfg!(target_arch = "x86_64")) {
        ("add_key", true) => 248,
        ("keyctl", true) => 250,
        ("add_key", false) => 217,
        _ => 219,
    }
}

#[tokio::test]
async fn keys_and_shared_objects_are_out_of_reach() {
    let key = 0x4c4f_0000 | (std::process::id() & 0xffff);
    let objects = Objects::new(key);
    let attempts = objects.attempts(key);
    // Outside, everything is there; the message can be received once.
    let outside = Objects::new(key ^ 0x10_0000);
    let control = python(&outside.attempts(key ^ 0x10_0000));
    let seen = control.matches("True").count();
    assert_eq!(seen, 5, "{control}");
    for mode in modes() {
        for network in [false, true] {
            let status = options(mode).sandbox.status();
            if !status.enforced.contains(&Protection::Objects) {
                continue;
            }
            let text = confined(mode, network, &attempts).await;
            assert_eq!(text.matches("False").count(), 6, "{mode:?}: {text}");
        }
    }
    for key in [key, key ^ 0x10_0000] {
        let removed = Command::new("ipcrm")
            .args(["-M", &key.to_string(), "-Q", &key.to_string()])
            .stderr(Stdio::null())
            .status();
        drop(removed);
        python(&format!(
            "{LIBRARY}libc.mq_unlink(b'/logue-{key}')\n\
             libc.syscall({0}, 9, libc.syscall({0}, 10, -4, b'user', b'logue-{key}', 0), -4)",
            call_number("keyctl")
        ));
    }
}
