"""The predictor for loops, from one thread and several."""

import faulthandler
import itertools
import signal
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import plumbline

PLAN = "deepseek-v3-2048xh800"


class Predictors(unittest.TestCase):
    def test_estimates_are_the_closed_form(self):
        predictor = plumbline.Predictor(PLAN, schedule__layers_per_stage="balanced")
        changes = [{}, {"parallelism.pipeline": 8}, {"schedule.kind": "1f1b"}, {"recompute.policy": "full"},
                   {"overlap.communication_sms": 24, "precision.gemm": "bf16"}, {"cluster.gpus": 1024},
                   {"model.n_routed_experts": 128}, {"cluster.profile": "h800-public"}, {"stack.name": "none"},
                   {"profile.memory.*.bandwidth": 0.9}, {"schedule.layers_per_stage": [3, 4, 4, 4, 4, 4, 4, 4, 4, 4,
                                                                                      4, 4, 4, 4, 4, 2]}]
        wholes = [plumbline.simulate(PLAN, fidelity="closed-form", interval=False,
                                     set={"schedule.layers_per_stage": "balanced", **set}) for set in changes]
        for set, whole in zip(changes + changes, wholes + wholes):
            with self.subTest(set=set):
                one = predictor.predict(set)
                self.assertEqual((one.time_s, one.mfu, one.tokens_per_s, one.peak_bytes, one.fits),
                                 (whole.time_s, whole.mfu, whole.tokens_per_s, whole.peak_bytes, whole.fits))

    def test_keys_that_a_stack_sets(self):
        predictor = plumbline.Predictor("llama-3-8b-fsdp-64xh100")
        for set in ({"overlap.gradient_reduce": False}, {"overlap.parameter_gather": False}, {"loss.kernel": "unfused"},
                    {"attention.kernel": "flash2"}):
            with self.subTest(set=set):
                one = predictor.predict(set)
                whole = plumbline.simulate("llama-3-8b-fsdp-64xh100", fidelity="closed-form", interval=False, set=set)
                self.assertEqual(one.time_s, whole.time_s)

    def test_keyword_arguments(self):
        predictor = plumbline.Predictor(PLAN)
        self.assertEqual(predictor(overlap__communication_sms=24).time_s,
                         predictor.predict({"overlap.communication_sms": 24}).time_s)

    def test_errors(self):
        predictor = plumbline.Predictor(PLAN)
        with self.assertRaises(plumbline.InputError) as caught:
            predictor(parallelism__pipelin=8)
        self.assertEqual(caught.exception.hint, "did you mean 'parallelism.pipeline'?")
        with self.assertRaises(plumbline.InputError):
            predictor(parallelism__pipeline="eight")
        with self.assertRaises(plumbline.InfeasibleError):
            predictor(parallelism__tensor=3)
        self.assertGreater(predictor().time_s, 0)

    def test_several_threads(self):
        predictor = plumbline.Predictor(PLAN, schedule__layers_per_stage="even")
        sets = [{"parallelism.pipeline": pipeline, "overlap.communication_sms": sms, "cluster.gpus": gpus}
                for pipeline, sms, gpus in itertools.product((8, 16), (16, 20, 24), (1024, 2048))]
        expected = [predictor.predict(set).time_s for set in sets]
        with ThreadPoolExecutor(4) as pool:
            for _ in range(3):
                self.assertEqual(list(pool.map(lambda set: predictor.predict(set).time_s, sets)), expected)


class Interruptions(unittest.TestCase):
    DEADLINE_S = 600  # after which one that was not seen ends the tests

    def setUp(self):
        # A shell's background job and nohup start programs with SIGINT ignored, and Python leaves it so.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        faulthandler.dump_traceback_later(self.DEADLINE_S, exit=True)
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def test_an_interrupted_search_ends(self):
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            # All of these take minutes, on many cores still longer than the timer.
            plumbline.plan("llama-3-405b", gpus=[4096, 8192, 12288, 16384], cluster="h100-dgx", complete=True)
        timer.join()

    def test_a_plan_that_contains_itself_is_refused(self):
        plan = {"run": {}}
        plan["run"]["run"] = plan
        with self.assertRaises(RecursionError):
            plumbline.memory(plan)

    def test_a_name_that_is_no_unicode_is_a_value_error(self):
        with self.assertRaises(UnicodeEncodeError):
            plumbline.memory("\ud800")

    def test_an_interrupted_simulation_ends(self):
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            plumbline.simulate(PLAN, draws=65536)
        timer.join()

    def test_an_interrupted_sweep_ends(self):
        timer = threading.Timer(0.5, lambda: signal.raise_signal(signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            plumbline.sweep(PLAN, over={"overlap.communication_sms": "0..100:1",
                                        "batch.global_batch_size": "15360..153600:512"})
        timer.join()


class Threads(unittest.TestCase):
    def test_simulations_of_several_threads(self):
        plans = ["llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100"] * 3
        expected = [plumbline.simulate(plan, interval=False).time_s for plan in plans]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda plan: plumbline.simulate(plan, interval=False).time_s, plans))
        self.assertEqual(found, expected)

    def test_other_threads_run_during_a_simulation(self):
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)

        ticker = threading.Thread(target=tick)
        ticker.start()
        begin = time.monotonic()
        plumbline.simulate("llama-3-8b-64xh800", draws=512)  # takes long against a tick, on many cores too
        end = time.monotonic()
        stop.set()
        ticker.join()
        # With the interpreter lock held, the thread would have run before and after, not in between.
        self.assertGreater(sum(begin < one < end for one in ticks), 2)


if __name__ == "__main__":
    unittest.main()
