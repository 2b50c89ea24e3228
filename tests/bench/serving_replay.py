#!/usr/bin/env python3
"""Replays the loop of an inference engine under constant concurrency, step by step: mean TTFT and TPOT.

serving_replay.py --concurrency N --input N --output N --budget N --step S --request S --prompt S [options]

A step takes --step seconds, --request more for each request that decodes and --prompt for each token of a prompt in
it; it has up to --budget tokens. The scheduler runs one step ahead of the GPU: it prepares a step with the requests
that have arrived when the one before begins. A request is sent when the answer to another has arrived, and is with the
scheduler when its text is tokens, one text after another; tokens are sent one after another, too. It checks the closed form of waves (docs/serving.md) and asks
what times outside of the engine do to first tokens.
"""

import argparse
import heapq
import random


class Replay:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(1)
        self.count = options.waves * options.concurrency
        self.arriving, self.waiting, self.running, self.begun = [], [], {}, {}
        self.sent, self.first, self.last = {}, {}, {}
        self.text_free = self.sender_free = 0.0

    def send(self, now):
        request = len(self.sent)
        if request == self.count:
            return
        self.sent[request] = now
        self.text_free = max(now, self.text_free) + self.options.tokenize * self.options.input
        delay = self.options.delay * (1 + self.options.spread * self.random.random())
        heapq.heappush(self.arriving, (self.text_free + delay, request))

    def prompts(self):
        """Returns the requests whose prompts end in the next step, and the tokens of prompts in it."""
        options, ended, tokens = self.options, [], 0
        left = options.budget - len(self.running)
        places = options.places or options.concurrency
        while self.waiting and left > 0 and len(self.running) + len(ended) < places:
            request = self.waiting[0]
            rest = self.begun.get(request, options.input)
            if options.whole and rest > left:
                break
            taken = min(rest, left)
            left, tokens = left - taken, tokens + taken
            if taken < rest:
                self.begun[request] = rest - taken
                break
            ended.append(self.waiting.pop(0))
        return ended, tokens

    def finish(self, end, ended, decoded):
        sent = max(self.sender_free, end)
        for request in decoded:
            if request not in self.running:
                continue
            sent += self.options.send
            self.running[request] -= 1
            if self.running[request] == 0:
                del self.running[request]
                self.last[request] = sent
                self.send(sent + self.options.delay)
        for request in ended:
            sent += self.options.send
            self.first[request] = sent
        self.sender_free = sent

    def run(self):
        options, launched, host, gpu = self.options, [], 0.0, 0.0
        for _ in range(options.concurrency):
            self.send(0.0)
        while len(self.last) < self.count:
            while self.arriving and self.arriving[0][0] <= host:
                self.waiting.append(heapq.heappop(self.arriving)[1])
            decoded = list(self.running)
            ended, tokens = self.prompts()
            idle = not decoded and not tokens
            if idle and not launched:
                host = max(host, self.arriving[0][0])
                continue
            if not idle:
                gpu = max(gpu, host) + options.step + options.request * len(decoded) + options.prompt * tokens
                self.running.update((request, options.output - 1) for request in ended)
                launched.append((gpu, ended, decoded))
            if idle or len(launched) > 1:
                end, ended, decoded = launched.pop(0)
                host = max(host, end)
                self.finish(end, ended, decoded)
        ttft = sum(self.first[i] - self.sent[i] for i in self.sent) / self.count
        tpot = sum(self.last[i] - self.first[i] for i in self.sent) / self.count / (options.output - 1)
        return ttft, tpot


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("concurrency", "input", "output", "budget"):
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("step", "request", "prompt"):
        parser.add_argument("--" + name, type=float, required=True, help="seconds")
    parser.add_argument("--tokenize", type=float, default=0, help="seconds for each token of a text")
    parser.add_argument("--send", type=float, default=0, help="seconds for each token that one process sends to clients")
    parser.add_argument("--delay", type=float, default=0, help="seconds each way between scheduler and client")
    parser.add_argument("--spread", type=float, default=0, help="delays of requests are up to this share longer")
    parser.add_argument("--places", type=int, default=0, help="requests that the engine runs; default: all in flight")
    parser.add_argument("--waves", type=int, default=10, help="requests over those in flight")
    parser.add_argument("--whole", action="store_true", help="prompts that do not fit in a step wait for the next")
    ttft, tpot = Replay(parser.parse_args()).run()
    print(f"TTFT {ttft * 1e3:.1f} ms, TPOT {tpot * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
