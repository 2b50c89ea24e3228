// Layers of traces by the ranges that frameworks push: numbered, counted within a pass, of two directions at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "calibrate/import/kineto/import.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/kineto_step.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using tests::KinetoStep;
using tests::matched;

constexpr const char* of_layer = "megatron.core.transformer.transformer_layer._forward_";

ImportedChunk import_ranges(const KinetoStep& step) {
  const tests::TemporaryDirectory folder;
  return import_kineto(folder.write("trace.json", step.trace.json()), tests::shipped_kernel_classes(), {}).value();
}

// Runs `work`, and annotates its launches.
template <class Work>
void within(KinetoStep& step, const std::string& name, const Work& work) {
  const double start = step.launch_us();
  work();
  step.trace.annotation(name, KinetoStep::text(start - 1), KinetoStep::text(step.launch_us() - start), step.thread);
}

// Runs `work`, and annotates it on the stream of the GPU, where it begins 2 us after the kernel before it.
template <class Work>
void on_stream(KinetoStep& step, const std::string& name, const Work& work) {
  const double start = step.now_us();
  work();
  step.trace.gpu_annotation(name, 7, KinetoStep::text(start - 1), KinetoStep::text(step.now_us() - start));
}

// Forward layers have ranges of their parts without a number, the backward has none. A forward layer takes 1,649 us, a
// backward one 3,349 us (KinetoStep).
TEST(KinetoLayers, RangesWithoutANumberAreCountedWithinAPass) {
  KinetoStep step;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    within(step, "forward_step", [&] {
      for (int layer = 0; layer < 3; ++layer)
        within(step, std::string(of_layer) + "attention.self_attention", [&] { step.forward(layer); });
    });
    within(step, "backward_step", [&] { step.backward_pass(3, false, false); });
  }
  const ImportedChunk imported = import_ranges(step.optimizer());
  EXPECT_NEAR(matched(step, imported).right, 1649.0 / (1649 + 3349), 1e-6);
  EXPECT_EQ(matched(step, imported).wrong, 0);
  EXPECT_THAT(imported.findings, testing::Contains(testing::HasSubstr("layer of the kernels' time: by annotation")));
}

TEST(KinetoLayers, RangesOnTheStreamOfTheGpu) {
  KinetoStep step;
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    on_stream(step, "megatron.core.pipeline_parallel.schedules.forward_step", [&] {
      for (int layer = 0; layer < 3; ++layer) on_stream(step, "TransformerLayer", [&] { step.forward(layer); });
    });
    on_stream(step, "megatron.core.pipeline_parallel.schedules.backward_step", [&] {
      for (int layer = 2; layer >= 0; --layer)
        on_stream(step, "layer_" + std::to_string(layer) + "b", [&] { step.backward(layer); });
    });
  }
  EXPECT_EQ(matched(step, import_ranges(step)).right, 1);
}

// Overlapped 1F1B: one range has the layers of both directions, the ranges within it the direction.
TEST(KinetoLayers, OneRangeHasTheLayersOfBothDirections) {
  KinetoStep step;
  for (int i = 0; i < 4; ++i)
    within(step, "layer_" + std::to_string(i) + "f-layer_" + std::to_string(3 - i) + "b", [&] {
      within(step, "moe_combine backward", [&] { step.kernel("nvjet_tst_a", 100, "B", 3 - i); });
      within(step, "attn forward", [&] { step.forward(i); });
      within(step, "mlp backward", [&] { step.backward(3 - i); });
      within(step, "mlp forward", [&] { step.kernel("nvjet_tst_b", 200, "F", i); });
    });
  EXPECT_EQ(matched(step, import_ranges(step)).right, 1);
}

}  // namespace
}  // namespace plumbline::calibrate
