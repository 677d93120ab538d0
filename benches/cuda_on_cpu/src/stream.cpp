// Streams and events. A stream does what it is told at once, unless
// CUDA_ON_CPU_STRICT has `late`: then it does nothing until something waits for
// it, and shows by that what lacks such a wait. Like a GPU's streams those
// here wait for no other one unless they are told to.
#include "driver.h"

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

namespace {

std::recursive_mutex lock;
std::set<Stream *> streams;
const bool late = strict("late");

void go_on(Stream *stream);

void reach(const Mark &mark) {
    while (!mark.reached)
        go_on(mark.stream);
}

void pass(Mark &mark) {
    mark.reached = true;
    mark.at = std::chrono::steady_clock::now();
}

// Does the first thing that the stream has not done.
void go_on(Stream *stream) {
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (work.waits_for)
        reach(*work.waits_for);
    if (work.node)
        work.node->run();
    if (work.reaches)
        pass(*work.reaches);
}

void finish(Stream *stream) {
    while (!stream->queue.empty())
        go_on(stream);
}

// Pageable memory is the caller's again when the call comes back: its bytes
// are taken now.
void stage(Node &node) {
    node.bytes.resize(node.width * node.height);
    for (size_t row = 0; row < node.height; row++)
        memcpy(node.bytes.data() + row * node.width, node.from + row * node.from_pitch, node.width);
    node.from = node.bytes.data();
    node.from_pitch = node.width;
}

Result create(Stream **out) {
    std::lock_guard<std::recursive_mutex> held(lock);
    *out = new Stream;
    streams.insert(*out);
    return SUCCESS;
}

// What may not be asked of a stream that captures.
Result waits(Stream *stream) {
    if (!stream || !stream->capture)
        return SUCCESS;
    stream->broken = true;
    return CAPTURE_UNSUPPORTED;
}

} // namespace

void submit(Stream *stream, std::shared_ptr<Node> node) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (stream && stream->capture) {
        stream->capture->nodes.push_back(std::move(node));
    } else if (stream && late) {
        bool wait = node->kind == Node::COPY && node->to_pageable;
        stream->queue.push_back({std::move(node), nullptr, nullptr});
        if (wait)
            finish(stream);
    } else {
        node->run();
    }
}

Result submit(Stream *stream, Node &&node) {
    if (late && stream && !stream->capture && node.from_pageable)
        stage(node);
    submit(stream, std::make_shared<Node>(std::move(node)));
    return SUCCESS;
}

void finish_all() {
    std::lock_guard<std::recursive_mutex> held(lock);
    for (Stream *stream : streams)
        finish(stream);
}

Result refuse_while_capturing(const char *call) {
    std::lock_guard<std::recursive_mutex> held(lock);
    Result result = SUCCESS;
    for (Stream *stream : streams)
        if (stream->capture) {
            fprintf(stderr, "cuda_on_cpu: %s, while a stream captures\n", call);
            result = waits(stream);
        }
    return result;
}

API Result cuStreamCreate(Stream **out, unsigned) { return create(out); }
API Result cuStreamCreateWithPriority(Stream **out, unsigned, int) { return create(out); }
API Result cuStreamDestroy_v2(Stream *stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    finish(stream);
    streams.erase(stream);
    return delete stream, SUCCESS;
}
API Result cuStreamSynchronize(Stream *stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (Result refused = waits(stream))
        return refused;
    if (stream)
        finish(stream);
    return SUCCESS;
}
// A program that asks again and again must come to an end, so each question
// moves the stream on.
API Result cuStreamQuery(Stream *stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (Result refused = waits(stream))
        return refused;
    if (!stream || stream->queue.empty())
        return SUCCESS;
    return go_on(stream), NOT_READY;
}
API Result cuStreamWaitEvent(Stream *stream, Event *event, unsigned) {
    std::lock_guard<std::recursive_mutex> held(lock);
    bool captures = stream && stream->capture;
    if (captures != event->captured && (event->mark || event->captured)) {
        if (captures)
            stream->broken = true;
        return CAPTURE_ISOLATION;
    }
    if (!captures && event->mark && !event->mark->reached) {
        if (stream)
            stream->queue.push_back({nullptr, nullptr, event->mark});
        else
            reach(*event->mark);
    }
    return SUCCESS;
}

API Result cuStreamBeginCapture_v2(Stream *stream, int) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!stream || stream->capture)
        return INVALID_VALUE;
    stream->capture = new Graph;
    stream->broken = false;
    return SUCCESS;
}
API Result cuStreamEndCapture(Stream *stream, Graph **out) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!stream || !stream->capture)
        return CAPTURE_UNMATCHED;
    Graph *graph = stream->capture;
    stream->capture = nullptr;
    *out = stream->broken ? nullptr : graph;
    if (stream->broken)
        delete graph;
    return stream->broken ? CAPTURE_INVALIDATED : SUCCESS;
}
// 0: the stream captures nothing, 1: it captures, 2: its capture is lost.
API Result cuStreamIsCapturing(Stream *stream, int *status) {
    return *status = stream && stream->capture ? 1 + stream->broken : 0, SUCCESS;
}

API Result cuEventCreate(Event **out, unsigned) { return *out = new Event, SUCCESS; }
API Result cuEventDestroy_v2(Event *event) { return delete event, SUCCESS; }
API Result cuEventRecord(Event *event, Stream *stream) {
    std::lock_guard<std::recursive_mutex> held(lock);
    event->captured = stream && stream->capture;
    event->mark = event->captured ? nullptr : std::make_shared<Mark>(Mark{stream});
    if (event->captured)
        return SUCCESS;
    if (stream && !stream->queue.empty())
        stream->queue.push_back({nullptr, event->mark, nullptr});
    else
        pass(*event->mark);
    return SUCCESS;
}
API Result cuEventQuery(Event *event) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (event->captured)
        return CAPTURED_EVENT;
    if (!event->mark || event->mark->reached)
        return SUCCESS;
    return go_on(event->mark->stream), NOT_READY;
}
API Result cuEventSynchronize(Event *event) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (event->captured)
        return CAPTURED_EVENT;
    if (event->mark)
        reach(*event->mark);
    return SUCCESS;
}
API Result cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    std::lock_guard<std::recursive_mutex> held(lock);
    if (!start->mark || !end->mark)
        return INVALID_VALUE;
    if (!start->mark->reached || !end->mark->reached)
        return NOT_READY;
    std::chrono::duration<float, std::milli> between = end->mark->at - start->mark->at;
    *milliseconds = between.count();
    return SUCCESS;
}
API Result cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
