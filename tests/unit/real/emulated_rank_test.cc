// One rank of a plan alone, on the host: its part of the step runs and is measured without the other ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "real/executor/run.h"
#include "tests/support/real/real_training.h"

namespace plumbline::tests {
namespace {

// Emulates all other ranks of a pipeline: messages are dropped, and sums have one addend.
class StandIn final : public real::Communicator {
 public:
  StandIn(real::host::HostDevice& device, std::int32_t rank, std::int32_t ranks)
      : rank_(rank),
        ranks_(ranks),
        transports_(real::host::in_process_transports(1)),
        alone_(real::host::make_communicator(device, *transports_[0])) {}

  std::int32_t rank() const override { return rank_; }
  std::int32_t ranks() const override { return ranks_; }
  void send_receive(model::Stream stream, std::span<const real::Message>, bool, std::uint32_t label) override {
    alone_->send_receive(stream, {}, false, label);
  }
  void launch(model::Stream stream, const real::Group&, const real::Kernel& kernel) override {
    ASSERT_EQ(kernel.op->kind, model::OperatorKind::all_reduce);
    alone_->launch(stream, {{0}, 0}, kernel);
  }
  model::Result<std::vector<double>> sum(std::vector<double>) override { return nobody(); }
  model::Result<std::vector<std::string>> gather(const std::string&) override { return nobody(); }
  void abort(const std::string&) override {}

 private:
  static tl::unexpected<model::Error> nobody() { return tl::unexpected(model::Error{.message = "nobody is there"}); }

  std::int32_t rank_, ranks_;
  std::vector<std::unique_ptr<real::host::Transport>> transports_;
  std::unique_ptr<real::Communicator> alone_;
};

model::Architecture dense() {
  model::Architecture a = small_moe();
  a.experts = {};
  return a;
}

real::RunInput two_ranks() {
  real::RunInput input{small_plan(), dense(), {}};
  input.plan.schedule.kind = "1f1b";
  input.plan.parallelism.pipeline = 2;
  input.plan.cluster.gpus = 2;
  input.cluster.gpus = input.cluster.gpus_per_node = 2;
  return input;
}

model::Result<real::RunResult> emulate(std::int32_t rank, std::vector<real::StepFigures>& figures,
                                       std::int32_t ranks = 2) {
  real::host::HostDevice device({.clock = real::host::ClockKind::cpu});
  StandIn others(device, rank, ranks);
  return real::run_rank(two_ranks(), {.steps = 3, .emulated = true}, device, others,
                        [&](const real::StepFigures& step) { figures.push_back(step); });
}

TEST(EmulatedRank, IsMeasuredAlone) {
  for (const std::int32_t rank : {0, 1}) {
    std::vector<real::StepFigures> figures;
    const auto result = emulate(rank, figures);
    ASSERT_TRUE(result) << to_string(result.error());
    const model::StepTimes& step = result->step.result.step;
    // All 8 micro-batches have their forwards and backwards.
    EXPECT_EQ(step.slot_counts[static_cast<std::size_t>(model::OpType::F)], 8);
    EXPECT_EQ(step.slot_counts[static_cast<std::size_t>(model::OpType::B)], 8);
    EXPECT_GT(step.slots_s[static_cast<std::size_t>(model::OpType::F)].value(), 0);
    EXPECT_EQ(step.slots_mean_s, step.slots_s);  // the mean over the one rank that ran
    for (const model::Span& span : result->step.timeline.spans) EXPECT_EQ(span.rank, rank);
    EXPECT_EQ(result->measured_seconds.size(), 2U);
    EXPECT_GT(result->issue_seconds, 0);
    ASSERT_EQ(figures.size(), 3U);
    EXPECT_TRUE(std::isnan(figures[0].loss));
    EXPECT_EQ(figures[2].step, 3);
    EXPECT_GT(figures[2].seconds, 0);
  }
}

TEST(EmulatedRank, IsOneOfThePlan) {
  std::vector<real::StepFigures> figures;
  const auto result = emulate(0, figures, 4);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().key, "cluster.gpus");
}

}  // namespace
}  // namespace plumbline::tests
