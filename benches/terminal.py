#!/usr/bin/env python3
"""Tests the live view in a real terminal: screens at two sizes, the question after `q`, Ctrl-C, Ctrl-Z, `&`, lines that stay.

    cargo build --release
    pip install pyte
    python3 benches/terminal.py [--binary target/release/formwork] [--show]

Result of 2026-11-24, pyte 0.8.2, bash 5: all 49 checks hold.
"""

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
from pathlib import Path

import pyte

EXPERIMENT = """name = "view"
seed = 1
[model]
kind = "decoder"
n_layers = 2
d_model = 64
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 4 }
feed_forward = { kind = "dense" }
[tokenizer]
kind = "byte"
[data]
kind = "text"
path = "text.txt"
context = 64
valid_fraction = 0.1
[task]
kind = "causal_lm"
[optimizer]
kind = "adamw"
lr = 1e-3
[train]
steps = STEPS
batch_size = 8
eval_every = 100
log_every = 10
sample = { prompt = "one ", tokens = 20 }
"""


class Terminal:
    """A program, or a shell that runs it, in a terminal with the given numbers of columns and lines."""

    def __init__(self, command, columns, lines, folder):
        self.screen = pyte.HistoryScreen(columns, lines, history=10_000)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", PS1="$ ")
            os.execvp(command[0], command)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            ready, _, _ = select.select([self.fd], [], [], 0.05)
            if ready:
                try:
                    data = os.read(self.fd, 1 << 16)
                except OSError:
                    return False
                self.raw += data
                self.stream.feed(data)
        return True

    def until(self, text, seconds=180):
        end = time.time() + seconds
        while time.time() < end:
            alive = self.read(0.2)
            if text in self.text():
                return
            if not alive:
                break
        raise SystemExit(f"{text!r} is not on the screen:\n{self.text()}")

    def text(self):
        """Returns the screen. pyte has no alternate screen, so the main screen's content after it is taken from the bytes."""
        if self.raw.rfind(b"\x1b[?1049l") > self.raw.rfind(b"\x1b[?1049h"):
            return left_behind(self)
        return "\n".join(self.screen.display)

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def end(self):
        while self.read(0.2):
            pass
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def left_behind(terminal):
    """Returns what stays on the terminal's main screen: the text after the alternate screen was left."""
    return terminal.raw.split(b"\x1b[?1049l")[-1].decode(errors="replace")


def require(holds, what, shown):
    if not holds:
        raise SystemExit(f"not so: {what}\n{shown}")
    print(f"ok: {what}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--binary", default="target/release/formwork")
    arguments.add_argument("--show", action="store_true", help="print the pictures")
    arguments = arguments.parse_args()
    binary = str(Path(arguments.binary).resolve())
    folder = Path(tempfile.mkdtemp())
    (folder / "text.txt").write_text("one two three four five six seven eight\n" * 2000)
    (folder / "long.toml").write_text(EXPERIMENT.replace("STEPS", "100000"))
    (folder / "short.toml").write_text(EXPERIMENT.replace("STEPS", "300"))

    for columns, lines in [(80, 24), (120, 40)]:
        run = f"at{columns}"
        terminal = Terminal([binary, "train", "long.toml", "--run", run], columns, lines, folder)
        terminal.until("checkpoint at step")
        picture = terminal.text()
        if arguments.show:
            print(picture)
        for part in ["view  at", "step ", "epoch ", " left", "tokens/s", "memory ", "learning rate", "gradient norm"]:
            require(part in picture, f"{columns}x{lines} shows {part.strip()!r}", picture)
        for part in ["loss  train", "bits_per_byte", "best valid loss", "sample at step", "q end the run"]:
            require(part in picture, f"{columns}x{lines} shows {part!r}", picture)
        terminal.type("q")
        terminal.until("save a checkpoint and end")
        terminal.type("n")
        terminal.read(1)
        require("save a checkpoint" not in terminal.text(), "n goes back", terminal.text())
        terminal.type("q")
        terminal.until("save a checkpoint and end")
        terminal.type("s")
        status = terminal.end()
        stays = left_behind(terminal)
        require(status == 130, f"status 130 after q, s: {status}", stays)
        for part in ["valid  loss", "sample at step", "saving a checkpoint", "formwork resume"]:
            require(part in stays, f"{part!r} stays in the terminal", stays)

    terminal = Terminal([binary, "resume", "at80"], 80, 24, folder)
    terminal.until("training")
    terminal.until(" left")
    terminal.type("\x03")
    require(terminal.end() == 130, "Ctrl-C saves and ends a resumed run", terminal.text())
    require(b"\x1b[?1049l" in terminal.raw, "the first screen is back", terminal.text())

    terminal = Terminal([binary, "train", "short.toml"], 80, 24, folder)
    status = terminal.end()
    stays = left_behind(terminal)
    require(status == 0 and "done after 300 steps" in stays, "a run that ends leaves its lines", stays)
    require(stays.count("valid  loss") == 3, "three evaluations stay", stays)

    terminal = Terminal([binary, "train", "long.toml", "--run", "lines"], 80, 24, folder)
    terminal.until("q end the run")
    terminal.type("p")
    terminal.until("step ")
    terminal.read(7)
    stays = left_behind(terminal)
    require("  train  loss" in stays, "after p the run goes on in lines", stays)
    os.kill(terminal.pid, signal.SIGTERM)
    require(terminal.end() == 130, "SIGTERM saves and ends", stays)

    shell = Terminal(["bash", "--norc", "-i"], 80, 24, folder)
    shell.type(f"{binary} train long.toml --run jobs\n")
    shell.until("q end the run")
    shell.type("\x1a")
    shell.until("Stopped")
    require("q end the run" not in shell.text(), "Ctrl-Z gives the terminal back", shell.text())
    shell.type("fg\n")
    shell.until("q end the run")
    print("ok: fg shows the view again")
    shell.type("\x1a")
    shell.until("Stopped")
    shell.type("clear; bg\n")
    shell.until("valid  loss")
    print("ok: bg goes on in lines")
    shell.type("fg\n")
    shell.until("q end the run")
    shell.type("\x03")
    shell.until("formwork resume")
    shell.type(f"clear; {binary} train long.toml --run behind &\n")
    shell.until("valid  loss")
    require("q end the run" not in shell.text(), "& trains in lines", shell.text())
    shell.type("kill %1; wait; echo ended $?\n")
    shell.until("ended")
    shell.type("exit\n")
    shell.end()

    piped = subprocess.Popen([binary, "train", "long.toml", "--run", "piped"], cwd=folder, stderr=subprocess.PIPE, text=True)
    time.sleep(17)
    piped.send_signal(signal.SIGINT)
    _, told = piped.communicate()
    training = told.count("  train  loss")
    require(2 <= training <= 4, f"a pipe gets a line of training every five seconds: {training} in 17 s", told)


if __name__ == "__main__":
    main()
