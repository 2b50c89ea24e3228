#!/usr/bin/env python3
"""Measures what one HTTP process takes to stream a token: CPU time of a chunk, the least of several runs.

streaming_cost.py [--requests N] [--steps N] [--runs N] [--http h11|httptools]

Needs starlette, uvicorn and uvloop. The process does what the front end of an engine in Python does for each token of
each request: it keeps the request's state, wakes the coroutine that waits for the next token, formats a chunk and sends
it. No token is made and none is decoded. Clients read in a process of their own.
"""

import argparse
import asyncio
import os
import selectors
import socket
import subprocess
import sys
import time

import uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

TIMEOUT = 4  # seconds, as SGLang's tokenizer_manager.py has it
CHUNK = ('data: {"text":"%s","output_ids":[%d],"meta_info":{"id":"%s","finish_reason":null,"prompt_tokens":%d,'
         '"weight_version":"default","completion_tokens":%d,"cached_tokens":0}}\n\n')


class State:
    def __init__(self):
        self.event = asyncio.Event()
        self.chunks = []
        self.finished = False


async def responses(state):
    while not state.finished:
        await asyncio.wait_for(state.event.wait(), TIMEOUT)
        chunk = state.chunks[-1]
        state.chunks = []
        state.event.clear()
        yield chunk


async def stream(state):
    async for chunk in responses(state):
        yield (CHUNK % chunk).encode()


class Server:
    def __init__(self, requests, steps):
        self.requests, self.steps, self.states = requests, steps, []

    async def generate(self, _):
        self.states.append(State())
        if len(self.states) == self.requests:
            asyncio.ensure_future(self.run())
        return StreamingResponse(stream(self.states[-1]), media_type="text/event-stream")

    async def run(self):
        await asyncio.sleep(0.5)  # until all clients wait
        start = time.process_time()
        for step in range(self.steps):
            for request, state in enumerate(self.states):
                state.chunks.append((" token", step, request, 1000, step))
                state.finished = step == self.steps - 1
                state.event.set()
            while any(state.event.is_set() for state in self.states):
                await asyncio.sleep(0)
        print((time.process_time() - start) / (self.requests * self.steps), flush=True)
        os._exit(0)  # connections are of no more use


def serve(port, options):
    server = Server(options.requests, options.steps)
    routes = [Route("/generate", server.generate, methods=["POST"])]
    uvicorn.run(Starlette(routes=routes), port=port, loop="uvloop", http=options.http, log_level="error")


def read(port, requests):
    """Reads what the server sends to that many requests until it ends."""
    selector = selectors.DefaultSelector()
    for _ in range(requests):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
        selector.register(connection, selectors.EVENT_READ)
    while selector.get_map():
        for key, _ in selector.select():
            try:
                ended = not key.fileobj.recv(1 << 20)
            except ConnectionResetError:
                ended = True
            if ended:
                selector.unregister(key.fileobj)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def measure(options):
    port = free_port()
    arguments = [f"--{name}={getattr(options, name)}" for name in ("requests", "steps", "http")]
    server = subprocess.Popen([sys.executable, __file__, *arguments, f"--serve={port}"], stdout=subprocess.PIPE,
                              text=True)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            if server.poll() is not None:
                sys.exit("the server did not start")
            time.sleep(0.05)
    read(port, options.requests)
    return float(server.communicate()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--http", choices=["h11", "httptools"], default="h11")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options)
    seconds = min(measure(options) for _ in range(options.runs))
    print(f"{seconds * 1e6:.1f} us of CPU time a chunk")


if __name__ == "__main__":
    main()
