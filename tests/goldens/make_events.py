#!/usr/bin/env python3
"""A TensorBoard event file by TensorBoard's own writer, for tests/it/journals/tensorboard.rs. Run by hand; writes
events.tfevents. With a folder it reads what Formwork wrote instead, as TensorBoard does, and prints the scalars.

    pip install tensorboard==2.21.0 protobuf==7.36.2 numpy==2.4.6 setuptools==65.5.0
    python make_events.py            # the golden
    python make_events.py RUN        # tag, step, value of every scalar of a run folder

The golden holds the version of the format, the start of a session, and scalars: names longer than 127 bytes (a length
of two bytes), a step beyond 32 bits, NaN, infinity, and an event without scalars.
"""
import collections
import pathlib
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

Event, SessionLog, Summary = event_pb2.Event, event_pb2.SessionLog, summary_pb2.Summary


def scalars(values):
    return Summary(value=[Summary.Value(tag=tag, simple_value=x) for tag, x in values])


EVENTS = [
    Event(wall_time=1700000000.5, file_version="brain.Event:2"),
    Event(wall_time=1700000000.5, session_log=SessionLog(status=SessionLog.START)),
    Event(wall_time=1700000001.25, step=10, summary=scalars([("train/loss", 2.5), ("train/lr", 1e-3)])),
    Event(wall_time=1700000002.0, step=300, summary=scalars([("update_ratio/" + "decoder.blocks.0" * 10, -0.0)])),
    Event(wall_time=1700000003.0, step=5_000_000_000, summary=scalars([("a", float("nan")), ("b", float("inf"))])),
    Event(wall_time=1700000004.0, step=127, summary=scalars([])),
]


def make():
    path = pathlib.Path(__file__).with_name("events.tfevents")
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for event in EVENTS:
            writer.write(event.SerializeToString())
        writer.flush()


def show(folder):
    run = event_accumulator.EventAccumulator(folder, size_guidance={event_accumulator.SCALARS: 0})
    run.Reload()
    for tag in run.Tags()["scalars"]:
        steps = collections.Counter(event.step for event in run.Scalars(tag))
        assert all(count == 1 for count in steps.values()), f"{tag} shows a step twice: {steps}"
        for event in run.Scalars(tag):
            print(tag, event.step, event.value)


if len(sys.argv) > 1:
    show(sys.argv[1])
else:
    make()
