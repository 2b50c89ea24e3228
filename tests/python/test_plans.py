"""Plans from files, text and dicts, and the errors of wrong ones."""

import copy
import os
import pickle
import tempfile
import unittest
from pathlib import Path

import plumbline

TEN_LINES = """
[model]
config = "models/llama-3-8b.json"
[cluster]
topology = "h100-dgx"
gpus = 16
[batch]
sequence_length = 4096
micro_batch_size = 1
global_batch_size = 64
"""


def time_of(plan, **keys):
    return plumbline.simulate(plan, fidelity="closed-form", interval=False, **keys).time_s


class Plans(unittest.TestCase):
    def test_keys_as_given_and_with_defaults(self):
        plan = plumbline.load_plan(TEN_LINES)
        self.assertEqual(sorted(plan), ["batch", "cluster", "model"])
        self.assertEqual(plumbline.load_plan(TEN_LINES, defaults=True)["parallelism"]["tensor"], 1)

    def test_changes_are_written_into_the_tables(self):
        plan = plumbline.load_plan(TEN_LINES, parallelism__tensor=2, set={"schedule.kind": "1f1b"},
                                   model__vocab_size=32000)
        self.assertEqual(plan["parallelism"], {"tensor": 2})
        self.assertEqual(plan["schedule"], {"kind": "1f1b"})
        self.assertEqual(plan["model"]["vocab_size"], 32000)
        self.assertEqual(time_of(plan), time_of(TEN_LINES, parallelism__tensor=2, schedule__kind="1f1b",
                                                model__vocab_size=32000))

    def test_values_of_every_type(self):
        plan = plumbline.load_plan(TEN_LINES, parallelism__pipeline=2, schedule__layers_per_stage=[15, 17],
                                   overlap__gradient_reduce=False, overlap__gradient_bucket_bytes=1e6,
                                   recompute__policy="selective", recompute__operators=["rmsnorm", "mlp"])
        self.assertEqual(plan["schedule"]["layers_per_stage"], [15, 17])
        self.assertIs(plan["overlap"]["gradient_reduce"], False)
        self.assertEqual(plan["overlap"]["gradient_bucket_bytes"], 1e6)
        self.assertGreater(time_of(plan), 0)

    def test_phases_stay_lists_of_tables(self):
        plan = plumbline.load_plan("deepseek-v3-2048xh800")
        result = plumbline.simulate(plan, fidelity="closed-form", interval=False)
        names = [phase["name"] for phase in result.run["phases"]]
        self.assertEqual(names[1:], [phase["name"] for phase in plan["run"]["phase"]])

    def test_none_is_a_key_that_is_not_given(self):
        plan = plumbline.load_plan(TEN_LINES)
        plan["cluster"]["profile"] = None
        self.assertEqual(time_of(plan), time_of(TEN_LINES))

    def test_dotted_keys_at_the_top_of_a_dict(self):
        plan = {**plumbline.load_plan(TEN_LINES), "parallelism.tensor": 2}
        self.assertEqual(time_of(plan), time_of(TEN_LINES, parallelism__tensor=2))

    def test_constants_of_profile_and_topology(self):
        slower = time_of(TEN_LINES, set={"profile.memory.*.bandwidth": 0.5})
        self.assertGreater(slower, time_of(TEN_LINES))

    def test_files_next_to_the_plan(self):
        shipped = Path(plumbline.data_folder()) / "examples/models/llama-3-8b.json"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "mine.json").write_text(shipped.read_text())
            file = Path(folder, "plan.toml")
            file.write_text(TEN_LINES.replace("models/llama-3-8b.json", "mine.json"))
            plan = plumbline.load_plan(file)
            self.assertEqual(plan.file, str(file))
            self.assertEqual(time_of(file), time_of(TEN_LINES))
            for same in (plan, pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan),
                         plan.set(parallelism__tensor=1)):
                self.assertEqual(time_of(same), time_of(TEN_LINES))
            result = plumbline.simulate(plan, fidelity="closed-form", interval=False)
            self.assertEqual(time_of(result.plan), result.time_s)
            both = plumbline.compare(plan, plan.set(parallelism__tensor=2), fidelity="closed-form", interval=False,
                                     names=["v1.5", "v2"])
            self.assertEqual([one["name"] for one in both.subjects], ["v1.5", "v2"])

    def test_toml_of_a_plan_is_read_back(self):
        plan = plumbline.load_plan("llama-3-8b-fsdp-64xh100")
        self.assertEqual(time_of(plan.to_toml()), time_of(plan))


class Errors(unittest.TestCase):
    def test_amounts_out_of_range(self):
        for amount, call in (("draws", lambda: plumbline.simulate(TEN_LINES, fidelity="closed-form", draws=0)),
                             ("draws", lambda: plumbline.serve("llama-3-70b-8xh100", draws=10**9)),
                             ("--seeds", lambda: plumbline.simulate(TEN_LINES, fidelity="cluster", seeds=10**18)),
                             ("--top", lambda: plumbline.plan("llama-3-8b", gpus=16, cluster="h100-dgx", top=0)),
                             ("nothing to compare", plumbline.compare)):
            with self.assertRaisesRegex(plumbline.InputError, amount):
                call()

    def test_an_unknown_key_of_a_file_has_file_line_and_hint(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "plan.toml")
            Path(file).write_text(TEN_LINES + "[parallelism]\npipelin = 8\n")
            with self.assertRaises(plumbline.InputError) as caught:
                plumbline.simulate(file)
        error = caught.exception
        self.assertEqual((error.file, error.line, error.key, error.kind), (file, 12, "parallelism.pipelin", "input"))
        self.assertEqual(error.hint, "did you mean 'parallelism.pipeline'?")
        self.assertTrue(str(error).startswith(f"{file}:12: parallelism.pipelin: unknown key"), str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.line), (str(error), 12))

    def test_a_dict_has_no_lines(self):
        plan = plumbline.load_plan(TEN_LINES)
        plan["parallelism"] = {"pipelin": 8}
        with self.assertRaises(plumbline.InputError) as caught:
            plumbline.simulate(plan)
        self.assertEqual((caught.exception.key, caught.exception.line), ("parallelism.pipelin", None))

    def test_degrees_that_do_not_divide(self):
        for call in (plumbline.simulate, plumbline.memory):
            with self.assertRaises(plumbline.InfeasibleError) as caught:
                call(TEN_LINES, parallelism__tensor=3)
            self.assertEqual(caught.exception.kind, "infeasible")
            self.assertIn("tensor", caught.exception.key)

    def test_a_plan_that_does_not_fit_is_no_error(self):
        result = plumbline.simulate(TEN_LINES, interval=False, batch__micro_batch_size=4, batch__sequence_length=32768)
        self.assertFalse(result.fits)
        self.assertIn("does not fit", repr(result))

    def test_other_wrong_requests(self):
        with self.assertRaisesRegex(plumbline.InputError, "llama-3-8b-64xh800"):
            plumbline.simulate("llama-3-8b-64xh80")
        with self.assertRaises(plumbline.InputError):
            plumbline.simulate(TEN_LINES, fidelity="exact")
        with self.assertRaisesRegex(plumbline.InputError, "both set and swept"):
            plumbline.sweep(TEN_LINES, {"parallelism.tensor": [1]}, parallelism__tensor=2)
        with self.assertRaises(TypeError):
            plumbline.simulate(TEN_LINES, parallelism__tensor=object())
        with self.assertRaisesRegex(TypeError, "a string, not of type int"):
            plumbline.simulate(TEN_LINES, set={1: 2})
        with self.assertRaisesRegex(TypeError, "given twice"):
            plumbline.simulate(TEN_LINES, set={"parallelism.tensor": 1}, parallelism__tensor=2)
        with self.assertRaises(plumbline.InputError):
            plumbline.load_plan(TEN_LINES, parallelism__tensr=2)


if __name__ == "__main__":
    unittest.main()
