"""The figures of the functions are those of the command, to the last digit."""

import json
import os
import sys
import tempfile
import unittest
from pathlib import Path

import plumbline

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import processes  # noqa: E402


def command(*words):
    done = processes.run([os.environ["PLUMBLINE_COMMAND"], *words, "--json", "-"], capture_output=True, text=True)
    return json.loads(done.stdout)


class Figures(unittest.TestCase):
    def test_simulate(self):
        for plan in ("deepseek-v3-2048xh800", "llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100", "host-dualpipe"):
            with self.subTest(plan=plan):
                self.assertEqual(plumbline.simulate(plan).to_dict(), command("simulate", plan))

    def test_simulate_changed(self):
        found = plumbline.simulate("deepseek-v3-2048xh800", fidelity="closed-form", interval=False,
                                   set={"routing.imbalance": 0.1}, overlap__communication_sms=24, model__vocab_size=64000)
        self.assertEqual(found.to_dict(), command(
            "simulate", "deepseek-v3-2048xh800", "--fidelity", "closed-form", "--no-interval", "--set",
            "routing.imbalance=0.1", "--set", "overlap.communication_sms=24", "--set", "model.vocab_size=64000"))

    def test_simulate_measured(self):
        found = plumbline.simulate("llama-3-8b-64xh800", measured="41%", measured_memory="71GB")
        self.assertEqual(found.to_dict(), command("simulate", "llama-3-8b-64xh800", "--measured", "41%",
                                                  "--measured-memory", "71GB"))
        self.assertEqual(found.measured["given"], "41%")
        self.assertIn(found.measured["sentence"], str(found))
        self.assertEqual(str(found).count("\ncause "), len(found.measured["causes"]))
        log = str(Path(__file__).resolve().parents[1] / "golden/inputs/train-megatron.log")
        found = plumbline.simulate("llama-3-8b-64xh800", measured=log)
        self.assertEqual(found.to_dict(), command("compare", "llama-3-8b-64xh800", log))
        with self.assertRaises(TypeError):
            plumbline.simulate("llama-3-8b-64xh800", measured_memory="71GB")

    def test_simulate_cluster(self):
        found = plumbline.simulate("llama-3-8b-64xh800", fidelity="cluster", seeds=2, seed=3, draws=16)
        self.assertEqual(found.to_dict(), command("simulate", "llama-3-8b-64xh800", "--fidelity", "cluster", "--seeds",
                                                  "2", "--seed", "3", "--draws", "16"))

    def test_a_dict_and_a_text_are_the_file(self):
        expected = command("simulate", "llama-3-8b-64xh800", "--no-interval")
        plan = plumbline.load_plan("llama-3-8b-64xh800")
        text = Path(plan.file).read_text()
        self.assertEqual(plumbline.simulate(plan, interval=False).to_dict(), expected)
        self.assertEqual(plumbline.simulate(dict(plan), interval=False).to_dict(), expected)
        self.assertEqual(plumbline.simulate(text, interval=False).to_dict(), expected)

    def test_an_effective_plan_predicts_the_same(self):
        for name in ("deepseek-v3-2048xh800", "llama-3-8b-fsdp-64xh100"):
            with self.subTest(plan=name):
                first = plumbline.simulate(name, fidelity="closed-form", interval=False)
                again = plumbline.simulate(first, fidelity="closed-form", interval=False)
                whole = plumbline.simulate(plumbline.load_plan(name, defaults=True), fidelity="closed-form",
                                           interval=False)
                self.assertEqual(again.step, first.step)
                self.assertEqual(whole.to_dict(), first.to_dict())

    def test_memory(self):
        self.assertEqual(plumbline.memory("deepseek-v3-2048xh800", rank=3, recompute__policy="none").to_dict(),
                         command("memory", "deepseek-v3-2048xh800", "--rank", "3", "--set", "recompute.policy=none"))

    def test_serve(self):
        for plan in ("llama-3-70b-8xh100", "deepseek-v3-144xh800"):
            with self.subTest(plan=plan):
                self.assertEqual(plumbline.serve(plan).to_dict(), command("serve", plan))

    def test_plan(self):
        found = plumbline.plan("llama-2-7b", gpus=64, cluster=["h100-dgx", "h800-rail-fat-tree"], top=2)
        self.assertEqual(found.to_dict(), command("plan", "llama-2-7b", "--gpus", "64", "--cluster",
                                                  "h100-dgx,h800-rail-fat-tree", "--top", "2"))

    def test_plan_that_serves(self):
        found = plumbline.plan("llama-3-8b", gpus=8, cluster="h100-dgx", objective="throughput", top=2)
        self.assertEqual(found.to_dict(), command("plan", "llama-3-8b", "--gpus", "8", "--cluster", "h100-dgx",
                                                  "--objective", "throughput", "--top", "2"))

    def test_compare(self):
        found = plumbline.compare("llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100")
        self.assertEqual(found.to_dict(), command("compare", "llama-3-8b-64xh800", "llama-3-8b-fsdp-64xh100"))

    def test_compare_results(self):
        results = [plumbline.simulate("llama-3-8b-64xh800", fidelity="closed-form", parallelism__tensor=tensor)
                   for tensor in (1, 2)]
        found = plumbline.compare(*results, names=["one", "two"])
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, name + ".json") for name in ("one", "two")]
            for file, result in zip(files, results):
                with open(file, "w") as stored:
                    stored.write(result.to_json())
            self.assertEqual(found.to_dict(), command("compare", *files))

    def test_compare_with_a_trace(self):
        found = plumbline.compare("deepseek-v3-2048xh800", "h800_dualpipe_chunk")
        self.assertEqual(found.to_dict(), command("compare", "deepseek-v3-2048xh800", "h800_dualpipe_chunk"))

    def test_validate(self):
        found = plumbline.validate("deepseek-v3-2048xh800")
        self.assertEqual(found.to_dict(), command("validate", "deepseek-v3-2048xh800"))
        self.assertTrue(found.passed)


if __name__ == "__main__":
    unittest.main()
