// Steps, phases and layers of traces: by annotations and by autograd; shapes of GEMMs and causes of waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/detail/work.h"
#include "calibrate/import/kineto/import.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/kineto_step.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using tests::KinetoStep;
using tests::matched;

model::Result<ImportedChunk> import_step(const std::string& text, const ImportOptions& options = {},
                                         const std::string& name = "trace.json") {
  const tests::TemporaryDirectory folder;
  return import_kineto(folder.write(name, text), tests::shipped_kernel_classes(), options);
}

// The order of kernels alone gives a trace neither phases nor layers.
TEST(KinetoPlaces, WithoutAnnotationsOrAutogradNothingIsGuessed) {
  KinetoStep step;
  step.forward_pass(2, true, true).backward_pass(2, true, true);
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_EQ(imported->with_phase, 0);
  EXPECT_THAT(imported->findings, Contains("layer of the kernels' time: unknown 100.0 %"));
}

// A step as FSDP2 and autograd record it: hooks around the layers, operators with sequence numbers.
TEST(KinetoPlaces, HooksOfFsdpAndSequenceNumbersOfAutograd) {
  KinetoStep step;
  const auto text = [](double us) { return KinetoStep::text(us); };
  const auto operation = [&](const std::string& name, double from, double to, int sequence, int thread) {
    step.trace.other("{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"" + name + "\", \"pid\": 77, \"tid\": " +
                     std::to_string(thread) + ", \"ts\": " + text(from) + ", \"dur\": " + text(to - from) +
                     ", \"args\": {\"Sequence number\": " + std::to_string(sequence) + "}}");
  };
  for (int layer = 0; layer < 3; ++layer) {
    const std::string name = "(layers." + std::to_string(layer) + ")";
    const double start = step.launch_us();
    step.forward(layer);
    const double end = step.launch_us();
    step.trace.annotation("FSDP::pre_forward " + name, text(start - 2), "1");
    step.trace.annotation("FSDP::post_forward " + name, text(end - 2), "1");
    operation("aten::mm", start - 0.5, end - 2.5, 100 + layer, 1);
  }
  step.thread = 2;
  for (int layer = 2; layer >= 0; --layer) {
    const double start = step.launch_us();
    step.backward(layer);
    operation("autograd::engine::evaluate_function: MmBackward0", start - 1, step.launch_us() - 1, 100 + layer, 2);
  }
  const double start = step.launch_us();  // a node without a sequence number
  step.kernel("void at::native::vectorized_elementwise_kernel<4, x>(P)", 10, "B", -1);
  operation("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", start - 1, start + 1, -1, 2);
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_EQ(matched(step, *imported).right, 1);
  EXPECT_THAT(imported->findings, Contains(HasSubstr("phase of the kernels' time: by autograd 100.0 %")));
  EXPECT_THAT(imported->findings, Contains(HasSubstr("by annotation")));
}

TEST(KinetoPlaces, CallsOfModulesAreLayers) {
  KinetoStep step;
  step.trace.annotation("forward", "0", "100000");
  for (int layer = 0; layer < 3; ++layer) {
    const double start = step.launch_us();
    step.forward(layer);
    const auto module = [&](const std::string& name, double from, double to) {
      step.trace.other("{\"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"nn.Module: " + name +
                       "\", \"pid\": 77, \"tid\": 1, \"ts\": " + KinetoStep::text(from) +
                       ", \"dur\": " + KinetoStep::text(to - from) + ", \"args\": {}}");
    };
    module("Block_" + std::to_string(layer + 5), start - 1, step.launch_us() - 1);
    module("Linear_" + std::to_string(layer), start, start + 10);
  }
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported);
  EXPECT_EQ(matched(step, *imported).right, 1);
}

// Three steps of different lengths, and the beginning of a fourth.
KinetoStep several_steps(bool annotated) {
  KinetoStep step;
  for (int number = 0; number < 4; ++number) {
    const double start = step.launch_us();
    step.forward_pass(2, true, true).backward_pass(2, true, true);
    if (number == 3) break;
    step.optimizer().pause(number == 0 ? 500 : 100 * number);
    if (annotated)
      step.trace.annotation("ProfilerStep#" + std::to_string(number + 7), KinetoStep::text(start - 1),
                            KinetoStep::text(step.launch_us() - start));
  }
  return step;
}

TEST(KinetoSteps, TheMedianOfTheWholeOnesOrTheOneAskedFor) {
  const std::string text = several_steps(true).trace.json();
  const auto imported = import_step(text);
  ASSERT_TRUE(imported);
  EXPECT_EQ(imported->step, 8);
  EXPECT_THAT(imported->findings, Contains(HasSubstr("step 8 of 7 to 9 (by ProfilerStep#N)")));
  EXPECT_EQ(import_step(text, {.step = 9})->step, 9);
  const auto missing = import_step(text, {.step = 3});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().key, "--step");
  EXPECT_EQ(missing.error().hint, "steps: 7, 8, 9");
}

TEST(KinetoSteps, AStepIsWholeWhereItsWorkFillsItsAnnotation) {
  KinetoStep step;
  step.forward_pass(2, true, true).backward_pass(2, true, true).optimizer();
  const double length_us = step.now_us();
  EXPECT_FALSE(import_step(step.trace.json())->origin.whole_step);
  const auto whole = [&](double us) {
    tests::KinetoTrace trace = step.trace;
    return import_step(trace.annotation("ProfilerStep#1", "0", KinetoStep::text(us)).json())->origin.whole_step;
  };
  EXPECT_TRUE(whole(length_us));
  EXPECT_FALSE(whole(2 * length_us));  // the file has half of it
}

TEST(KinetoSteps, OptimizersEndStepsWithoutAnnotations) {
  const auto imported = import_step(several_steps(false).trace.json(), {.step = 1});
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_THAT(imported->findings, Contains(HasSubstr("step 1 of 0 to 3 (by the ends of optimizers, counted from 0)")));
  KinetoStep one;
  one.forward_pass(2, true, true).backward_pass(2, true, true).optimizer();
  EXPECT_EQ(imported->timeline.kernels.size(), one.expected.size());
}

TEST(KinetoSteps, RankOfTheFileWhereTheTraceHasNone) {
  const std::string text = R"([{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 5, "dur": 1}])";
  EXPECT_EQ(import_step(text, {}, "trace_rank-12.json")->origin.rank, 12);
  EXPECT_EQ(import_step(text, {}, "trace.json")->origin.rank, -1);
}

TEST(KinetoShapes, OfOperators) {
  const auto text = [](const char* operation, const char* dims) {
    const auto shape = gemm_shape(operation, dims);
    return !shape ? ""
                  : std::to_string(shape->m) + "x" + std::to_string(shape->n) + "x" + std::to_string(shape->k) +
                        (shape->groups > 1 ? " g" + std::to_string(shape->groups) : "");
  };
  EXPECT_EQ(text("aten::mm", "[[4096, 7168], [7168, 512]]"), "4096x512x7168");
  EXPECT_EQ(text("aten::addmm", "[[512], [4096, 7168], [7168, 512], [], []]"), "4096x512x7168");
  EXPECT_EQ(text("aten::addmm", "[[4096, 512], [4096, 7168], [7168, 512], [], []]"), "4096x512x7168");
  EXPECT_EQ(text("aten::bmm", "[[8, 128, 64], [8, 64, 32]]"), "128x32x64 g8");
  EXPECT_EQ(text("aten::linear", "[[2, 4096, 7168], [512, 7168], []]"), "8192x512x7168");
  EXPECT_EQ(text("_LayerNormLinear", "[[4096, 1, 7168], [7168], [], [1536, 7168]]"), "4096x1536x7168");
  EXPECT_EQ(text("aten::matmul", "[[2, 4096, 7168], [7168, 512]]"), "8192x512x7168");
  EXPECT_EQ(text("aten::_grouped_mm", "[[8192, 7168], [8, 7168, 512], [8]]"), "1024x512x7168 g8");
  EXPECT_EQ(text("aten::mm", "[[4096, 7168], [512, 7168]]"), "");
  EXPECT_EQ(text("aten::mm", "[[4096], []]"), "");
  EXPECT_EQ(text("aten::mm", "nonsense"), "");
}

TEST(KinetoShapes, AreInTheNotesOfGemms) {
  KinetoStep step;
  step.trace.other(R"({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 77, "tid": 1, "ts": 5, "dur": 20, )"
                   R"("args": {"External id": 3, "Input Dims": [[4096, 7168], [7168, 512]]}})");
  step.kernel("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", 100).kernel("void cublasLt::splitKreduce_kernel<x>(P)", 5);
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported);
  EXPECT_THAT(imported->timeline.kernels[0].note, HasSubstr("m=4096 n=512 k=7168 "));
  EXPECT_THAT(imported->timeline.kernels[1].note, Not(HasSubstr("m=")));  // the sum over parts of the same GEMM
  EXPECT_THAT(imported->findings, Contains(HasSubstr("GEMMs with a shape: 1 of 2")));
}

TEST(KinetoWaits, ForTheHostForCommunicationAndForAnotherStream) {
  KinetoStep step;
  const std::string kernel = "void at::native::vectorized_elementwise_kernel<4, x>(P)";
  step.kernel(kernel, 10);
  step.pause(500).host_to_now().kernel(kernel, 10);  // launched when the stream had been idle
  step.kernel("ncclDevKernel_AllGather_RING_LL(P)", 300, "", -1, 20).kernel(kernel, 10);
  step.kernel(kernel, 200, "", -1, 23).kernel(kernel, 10);
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported);
  const auto cause = [&](std::size_t i) { return std::string(note_value(imported->timeline.kernels[i].note, "wait")); };
  EXPECT_EQ(cause(1), "host");
  EXPECT_EQ(cause(3), "communication");
  EXPECT_EQ(cause(5), "dependency");
  // 2 us in front of each kernel, 500 us of the host's pause.
  EXPECT_THAT(imported->findings, Contains("GPU idle for 0.510 of 1.050 ms, it waits for: communication 0.002, "
                                           "dependency 0.002, host 0.502, launch gaps 0.004"));
}

TEST(KinetoDamage, ReorderedEventsGiveTheSame) {
  KinetoStep step;
  step.forward_pass(3, true, true).backward_pass(3, true, true);
  const std::string text = step.trace.json();
  const std::size_t begin = text.find("[\n  {") + 1, end = text.rfind("\n],");
  std::vector<std::string> events;
  for (std::size_t at = begin; at < end;) {
    const std::size_t next = std::min(text.find(",\n  {", at + 1), end);
    events.push_back(text.substr(at, next - at));
    at = next + 1;
  }
  std::ranges::reverse(events);
  std::string reordered = text.substr(0, begin);
  for (std::size_t i = 0; i < events.size(); ++i) reordered += (i == 0 ? "" : ",") + events[i];
  const auto first = import_step(text), second = import_step(reordered + text.substr(end));
  ASSERT_TRUE(first && second) << model::to_string(second.error());
  EXPECT_EQ(to_csv(second->timeline, {}), to_csv(first->timeline, {}));
}

TEST(KinetoDamage, ACutStepKeepsWhatItShows) {
  KinetoStep step;
  for (int i = 0; i < 3; ++i) step.forward_pass(4, true, true).backward_pass(4, true, true);
  const std::string text = step.trace.json();
  const auto imported = import_step(text.substr(0, text.size() * 3 / 5));
  ASSERT_TRUE(imported) << model::to_string(imported.error());
  EXPECT_THAT(imported->findings[0], HasSubstr("the JSON ends early, at byte"));
  const auto whole = import_step(text);
  ASSERT_TRUE(whole);
  const std::size_t kept = imported->timeline.kernels.size();
  EXPECT_GT(2 * kept, whole->timeline.kernels.size());
  EXPECT_LT(kept, whole->timeline.kernels.size());
  for (std::size_t i = 0; i < kept; ++i)
    EXPECT_EQ(imported->timeline.kernels[i].class_name, whole->timeline.kernels[i].class_name) << i;
}

TEST(KinetoDamage, RenamedKernelsAreListedAndNotGuessed) {
  KinetoStep step;
  step.attention = "my_own_attention";
  for (int i = 0; i < 2; ++i) step.forward_pass(4, true, true).backward_pass(4, true, true);
  const auto imported = import_step(step.trace.json());
  ASSERT_TRUE(imported);
  ASSERT_EQ(imported->unknown.size(), 1U);
  EXPECT_EQ(imported->unknown[0].name, "my_own_attention");
  EXPECT_EQ(imported->unknown[0].count, 8);
}

}  // namespace
}  // namespace plumbline::calibrate
