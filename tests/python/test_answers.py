"""Answers as attributes, frames, pages and plots, and pickled."""

import pickle
import unittest
from json import dumps

import plumbline

try:
    import pandas
except ImportError:
    pandas = None
try:
    import matplotlib
except ImportError:
    matplotlib = None

needs_pandas = unittest.skipIf(pandas is None, "pandas is missing (Debian: python3-pandas)")
needs_matplotlib = unittest.skipIf(matplotlib is None, "matplotlib is missing (Debian: python3-matplotlib)")
PLAN = "llama-3-8b-64xh800"


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.result = plumbline.simulate(PLAN, draws=16)
        cls.memory = plumbline.memory(PLAN)
        cls.serving = plumbline.serve("llama-3-70b-8xh100", draws=16)
        cls.plans = plumbline.plan("llama-3-8b", gpus=[8, 16], cluster="h100-dgx", top=2)
        cls.comparison = plumbline.compare(PLAN, cls.result, interval=False)
        cls.trace = plumbline.compare("deepseek-v3-2048xh800", "h800_dualpipe_chunk")
        cls.all = (cls.result, cls.memory, cls.serving, cls.plans, cls.comparison, cls.trace)

    def test_attributes_are_those_of_the_json(self):
        json = self.result.to_dict()
        self.assertEqual(self.result.time_s, json["step"]["time_s"])
        self.assertEqual(self.result.mfu, json["step"]["mfu"])
        self.assertEqual(self.result.tokens_per_s, json["step"]["tokens_per_s"])
        self.assertEqual(self.result.memory, json["memory"])
        self.assertEqual(self.result.fits, json["memory"]["fits"])
        self.assertEqual(self.result.bound_s, json["bound"]["time_s"])
        self.assertEqual(self.result.interval["draws"], 16)
        self.assertAlmostEqual(sum(self.result.breakdown_s.values()), self.result.time_s)
        self.assertEqual(self.serving.tpot_s, self.serving.to_dict()["serving"]["tpot_s"])
        self.assertIsNone(plumbline.simulate(PLAN, fidelity="closed-form", interval=False).interval)

    def test_every_key_is_an_attribute(self):
        json = self.serving.to_dict()
        for part in (json, json["serving"]):
            for name in set(part) - {"plan"}:
                self.assertEqual(getattr(self.serving, name), part[name], name)
                self.assertIn(name, dir(self.serving))
        with self.assertRaisesRegex(AttributeError, "ServingResult has no attribute 'tpot'"):
            self.serving.tpot

    def test_limits_hold_in_a_share_of_the_cases(self):
        half, most = (plumbline.serve("llama-3-70b-8xh100", draws=16, confidence=share, inference__concurrency=0,
                                      inference__max_tpot_s=0.03) for share in (0.5, 0.9))
        self.assertLess(most.serving["concurrency"], half.serving["concurrency"])
        with self.assertRaises(ValueError):
            plumbline.serve("llama-3-70b-8xh100", confidence=2)

    def test_of_a_full_device_the_least_is_shown(self):
        answer = self.memory.to_dict()
        memory = answer["memory"]
        fullest = next(stage for stage in memory["stages"] if stage["stage"] == memory["fullest_rank"])
        memory.update(peak_bytes=80e9, capacity_bytes=80e9, fits_probability=0.7, verdict="at the edge")
        fullest.update(low_bytes=75e9, peak_bytes=80e9)
        full = type(self.memory)(dumps(answer))
        self.assertEqual(repr(full), "peak memory at least 75 GB of 80 GB, at the edge with 70 %")

    def test_no_probability_is_certain(self):
        answer = self.memory.to_dict()
        answer["memory"].update(fits_probability=1.0, verdict="fits")
        self.assertTrue(repr(type(self.memory)(dumps(answer))).endswith(", fits with > 99 %"))

    def test_what_is_changed_in_a_dict_stays_there(self):
        self.result.to_dict()["step"]["time_s"] = 0
        self.assertGreater(self.result.time_s, 0)

    def test_pickle(self):
        for answer in self.all:
            again = pickle.loads(pickle.dumps(answer))
            self.assertEqual(again, answer)
            self.assertEqual(again.to_dict(), answer.to_dict())
            self.assertEqual(repr(again), repr(answer))

    def test_pages(self):
        for answer in self.all:
            page = answer._repr_html_()
            self.assertTrue(page.startswith("<table>") and page.endswith("</table>"), page)

    def test_the_best_plan_predicts_what_the_search_found(self):
        self.assertEqual(len(self.plans), 4)
        found = self.plans.to_dict()["sites"][0]["plans"][0]["step"]["time_s"]
        # The search keeps costs between plans, and its times differ by rounding.
        self.assertAlmostEqual(plumbline.simulate(self.plans.best, interval=False).time_s, found, places=9)

    def test_no_plan_is_an_error_of_its_best(self):
        answer = plumbline.plan("llama-3-405b", gpus=8, cluster="h100-dgx")
        self.assertEqual(answer.plans, [])
        with self.assertRaises(plumbline.InfeasibleError):
            answer.best

    @needs_pandas
    def test_frames(self):
        frame = self.result.to_frame()
        self.assertEqual(len(frame), 1)
        self.assertEqual(frame["step.time_s"][0], self.result.time_s)
        self.assertEqual(frame["interval.time_s.p90"][0], self.result.interval["time_s"]["p90"])
        self.assertEqual(len(self.memory.to_frame()), len(self.memory.memory["stages"]))
        self.assertEqual(self.serving.to_frame()["tpot_s"][0], self.serving.tpot_s)
        self.assertEqual(list(self.plans.to_frame()["step.time_s"]),
                         [found["step"]["time_s"] for _, found in self.plans._found()])
        self.assertEqual(len(self.comparison.to_frame()), 2)
        self.assertTrue({"totals", "classes"} <= set(self.trace.to_frame()["table"]))
        self.assertEqual(set(plumbline.validate("deepseek-v3-2048xh800").to_frame()["case"]),
                         {"DeepSeek-V3 pre-training on 2,048 H800"})

    @needs_pandas
    def test_sweep(self):
        over = {"parallelism.pipeline": [8, 16], "schedule.kind": ["1f1b", "dualpipe"]}
        frame = plumbline.sweep("deepseek-v3-2048xh800", over, fidelity="closed-form", schedule__layers_per_stage="even")
        self.assertEqual(list(zip(frame["parallelism.pipeline"], frame["schedule.kind"])),
                         [(8, "1f1b"), (8, "dualpipe"), (16, "1f1b"), (16, "dualpipe")])
        for _, row in frame.iterrows():
            one = plumbline.simulate("deepseek-v3-2048xh800", fidelity="closed-form", interval=False,
                                     schedule__layers_per_stage="even",
                                     set={key: row[key] for key in ("parallelism.pipeline", "schedule.kind")})
            self.assertEqual(row["step.time_s"], one.time_s)
            self.assertEqual(row["memory.peak_bytes"], one.peak_bytes)
        self.assertEqual(len(frame.attrs["plumbline"]["points"]), 4)

    @needs_pandas
    def test_a_point_that_is_infeasible_has_its_reason(self):
        frame = plumbline.sweep(PLAN, {"parallelism.tensor": "1..3"}, fidelity="closed-form")
        self.assertEqual(list(frame["feasible"]), [True, True, False])
        self.assertIn("3", frame["reason"][2])

    @needs_pandas
    def test_sweep_of_deployments(self):
        frame = plumbline.sweep("llama-3-70b-8xh100", {"inference.concurrency": [1, 32]})
        for _, row in frame.iterrows():
            one = plumbline.serve("llama-3-70b-8xh100", interval=False,
                                  set={"inference.concurrency": int(row["inference.concurrency"])})
            self.assertEqual(row["serving.tpot_s"], one.tpot_s)
            self.assertEqual(row["serving.ttft_s"], one.ttft_s)

    def test_comparison_of_deployments(self):
        both = plumbline.compare("llama-3-70b-8xh100", cluster=["h100-dgx", "h200-hgx"], interval=False)
        self.assertEqual(both.subjects[0]["serving"]["tpot_s"],
                         plumbline.serve("llama-3-70b-8xh100", interval=False).tpot_s)
        self.assertIn(" ms", repr(both))

    def test_a_measured_deployment_is_held_against_its_interval(self):
        held = plumbline.serve("llama-3-70b-8xh100", draws=16, measured="10s").measured
        self.assertEqual(held["verdict"], "slower")
        self.assertEqual(held["tpot_s"], 10)
        self.assertIsNone(self.serving.measured)

    @needs_matplotlib
    def test_plots(self):
        for answer in (self.result, self.memory, self.comparison):
            axes = answer.plot()
            self.assertTrue(axes.patches)
            self.assertIs(answer.plot(axes), axes)
            matplotlib.pyplot.close(axes.figure)


if __name__ == "__main__":
    unittest.main()
