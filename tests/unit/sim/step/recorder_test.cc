// Records of GPUs become spans that tile and nest, so that any trace viewer can draw them.
#include "sim/step/detail/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::Span;
using model::Stream;

std::int64_t end_of(const Span& span) { return span.start_ps + span.duration_ps; }
bool within(const Span& inner, const Span& outer) {
  return inner.start_ps >= outer.start_ps && end_of(inner) <= end_of(outer);
}

// DeepSeek-V3's shipped plan with the fewest micro-batches that DualPipe accepts on 16 ranks: 32 per pipeline.
class Recorders : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    simulation_ = simulate(tests::step_inputs(tests::deepseek_plan, "h800", {"batch.global_batch_size=4096"}),
                           Fidelity::step, true)
                      .value();
  }
  static const model::Timeline& timeline() { return simulation_.timeline; }

  static std::vector<Span> spans(std::int32_t rank, Stream stream, int depth) {
    std::vector<Span> found;
    for (const Span& span : timeline().spans)
      if (span.rank == rank && span.stream == stream && span.depth == depth) found.push_back(span);
    return found;
  }
  static std::string name(const Span& span) { return timeline().names[span.name]; }
  static std::map<std::string, int> count(const std::vector<Span>& all) {
    std::map<std::string, int> counts;
    for (const Span& span : all) ++counts[name(span)];
    return counts;
  }

  static Simulation simulation_;
};
Simulation Recorders::simulation_;

TEST_F(Recorders, SpansAreInOrderAndWithinTheStep) {
  EXPECT_EQ(timeline().ranks, 16);
  EXPECT_NEAR(static_cast<double>(timeline().end_ps), simulation_.result.step.time_s * 1e12, 1);
  const auto key = [](const Span& s) { return std::make_tuple(s.rank, s.stream, s.depth, s.start_ps); };
  EXPECT_TRUE(std::ranges::is_sorted(timeline().spans, {}, key));
  for (const Span& span : timeline().spans) {
    EXPECT_GE(span.start_ps, 0);
    EXPECT_GE(span.duration_ps, 0);
    EXPECT_LE(end_of(span), timeline().end_ps);
  }
}

TEST_F(Recorders, NothingOverlapsOnATrack) {
  for (std::size_t i = 1; i < timeline().spans.size(); ++i) {
    const Span& before = timeline().spans[i - 1];
    const Span& span = timeline().spans[i];
    if (std::tie(before.rank, before.stream, before.depth) != std::tie(span.rank, span.stream, span.depth)) continue;
    EXPECT_LE(end_of(before), span.start_ps) << name(before) << " and " << name(span) << " of rank " << span.rank;
  }
}

TEST_F(Recorders, PhasesLieInSlotsAndKernelsInPhases) {
  for (std::int32_t rank = 0; rank < timeline().ranks; ++rank) {
    const std::vector<Span> slots = spans(rank, Stream::compute, 0);
    for (const Stream stream : {Stream::compute, Stream::communication, Stream::weight_gradient}) {
      const std::vector<Span> phases = spans(rank, stream, 1);
      for (const Span& phase : phases)
        EXPECT_TRUE(std::ranges::any_of(slots, [&](const Span& slot) { return within(phase, slot); })) << name(phase);
      for (const Span& kernel : spans(rank, stream, 2))
        EXPECT_TRUE(std::ranges::any_of(phases, [&](const Span& phase) { return within(kernel, phase); }))
            << name(kernel);
    }
  }
}

TEST_F(Recorders, KernelsTileTheirSegment) {
  int tiled = 0;
  for (std::int32_t rank = 0; rank < timeline().ranks; ++rank) {
    for (const Stream stream : {Stream::compute, Stream::weight_gradient}) {
      const std::vector<Span> kernels = spans(rank, stream, 2);
      for (const Span& phase : spans(rank, stream, 1)) {
        std::vector<Span> inside;
        std::ranges::copy_if(kernels, std::back_inserter(inside), [&](const Span& k) { return within(k, phase); });
        if (inside.empty()) continue;  // kernels are drawn for one pair only
        EXPECT_EQ(inside.front().start_ps, phase.start_ps);
        EXPECT_EQ(end_of(inside.back()), end_of(phase));
        for (std::size_t i = 1; i < inside.size(); ++i) EXPECT_EQ(inside[i].start_ps, end_of(inside[i - 1]));
        ++tiled;
      }
    }
  }
  // Every rank has a pair; the smallest, of three and two layers, has at least 6 compute segments a pair of layers.
  EXPECT_GE(tiled, 16 * 12);
}

TEST_F(Recorders, AnAllToAllIsItsBarrierAndItsTransfer) {
  // In the pair whose kernels are drawn, notify and transfer follow each other to the end of the phase.
  const std::vector<Span> parts = spans(7, Stream::communication, 2);
  int transfers = 0;
  for (const Span& phase : spans(7, Stream::communication, 1)) {
    std::vector<Span> inside;
    std::ranges::copy_if(parts, std::back_inserter(inside), [&](const Span& s) { return within(s, phase); });
    if (inside.size() < 2) continue;
    EXPECT_EQ(name(inside[0]), "notify");
    EXPECT_EQ(name(inside[1]), "transfer");
    EXPECT_EQ(end_of(inside[0]), inside[1].start_ps);
    EXPECT_EQ(end_of(inside[1]), end_of(phase));
    ++transfers;
  }
  EXPECT_EQ(transfers, 16);  // rank 7 holds stages 7 and 8: four layer pairs of four all-to-alls
}

TEST_F(Recorders, EverySlotAndPhaseIsThere) {
  // On a middle rank each of the 32 micro-batches passes four MoE layers forward and four backward.
  const std::map<std::string, int> compute = count(spans(7, Stream::compute, 1));
  EXPECT_EQ(compute.at("attn(F)"), 32 * 4);
  EXPECT_EQ(compute.at("attn(B)"), 32 * 4);
  EXPECT_EQ(compute.at("attn(W)"), 32 * 4);
  EXPECT_EQ(compute.at("mlp(F)"), 32 * 4);
  EXPECT_EQ(compute.at("mlp(B)"), 32 * 4);
  const std::map<std::string, int> communication = count(spans(7, Stream::communication, 1));
  for (const char* phase : {"dispatch(F)", "dispatch(B)", "combine(F)", "combine(B)"})
    EXPECT_EQ(communication.at(phase), 32 * 4) << phase;
  for (const Span& span : spans(7, Stream::communication, 1)) {
    EXPECT_GE(span.layer, 27);  // stages 7 and 8 of [3, 4, 4, ...]: layers 27..30 and 31..34
    EXPECT_LE(span.layer, 34);
    EXPECT_GE(span.micro_batch, 0);
    EXPECT_LT(span.micro_batch, 16);  // per direction
  }
}

TEST_F(Recorders, MessagesAndTheOptimizerHaveTheirOwnTracks) {
  const model::StepProgram program =
      tests::program_of(tests::step_inputs(tests::deepseek_plan, "h800", {"batch.global_batch_size=4096"}));
  std::map<std::string, int> messages;
  for (std::int32_t rank = 0; rank < timeline().ranks; ++rank) {
    for (const auto& [text, n] : count(spans(rank, Stream::pipeline, 1))) messages[text] += n;
    const std::map<std::string, int> optimizer = count(spans(rank, Stream::optimizer, 1));
    // Every unit of the rank's two stages occurs once.
    const auto units = static_cast<int>(program.stage_units[static_cast<std::size_t>(rank)].size() +
                                        program.stage_units[static_cast<std::size_t>(15 - rank)].size());
    EXPECT_EQ(optimizer.at("reduce gradients"), units) << rank;
    EXPECT_EQ(optimizer.at("gather parameters"), units) << rank;
    EXPECT_EQ(optimizer.at("adamw"), 1) << rank;
  }
  // There are 32 micro-batches over 15 boundaries, each way.
  EXPECT_EQ(messages, (std::map<std::string, int>{{"send activation", 480}, {"send gradient", 480}}));
}

}  // namespace
}  // namespace plumbline::sim
