// Traces of predicted steps without annotations find their layers, phases and micro-batches again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/match/detail/matching.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text_file.h"
#include "reports/json/read_json.h"
#include "tests/support/kernel_classes.h"
#include "tests/support/step_inputs.h"
#include "tests/support/stripped_trace.h"

namespace plumbline::calibrate {
namespace {

using tests::all_kernels;
using tests::imported_trace;
using tests::StrippedKernel;

constexpr double least_share = 0.95;

bool runs_again(const model::Timeline& timeline, const model::Span& span) {
  return note_value(timeline.kernel_of(span).note, "recomputed") == "1";
}

std::string phase_of(const model::Timeline& timeline, const model::Span& span) {
  return timeline.kernel_of(span).phase + (runs_again(timeline, span) ? " again" : "");
}

// Whether a kernel was found at its place in the step. An executed step states no phases; in another order of
// micro-batches than the predicted one they are exchanged, and in another one of passes the layers.
struct Truth {
  const model::Timeline& timeline;
  bool executed = false, other_order = false, other_layers = false;

  bool same_place(const model::Timeline& predicted, const model::Span& found, const model::Span& truth) const {
    return (other_layers || found.layer == truth.layer) && (other_order || found.micro_batch == truth.micro_batch) &&
           (executed || phase_of(predicted, found) == phase_of(timeline, truth));
  }
};

struct Shares {
  double matched = 0, right = 0, reordered = 0;  // of the trace's kernel time
};

Shares shares_of(const model::Timeline& predicted, std::int32_t rank, const std::vector<StrippedKernel>& kernels,
                 const Truth& of_trace) {
  const model::Timeline measured = imported_trace(kernels);
  const StepMatch match = match_step(predicted, rank, measured);
  std::multimap<std::pair<std::int64_t, int>, const StrippedKernel*> truth;
  for (const StrippedKernel& kernel : kernels)
    truth.emplace(std::pair((kernel.start_ns - kernels.front().start_ns) * 1000, kernel.stream), &kernel);
  Shares shares{match.share(), 0, match.reordered_share()};
  for (std::size_t i = 0; i < measured.spans.size(); ++i) {
    const model::Span& span = measured.spans[i];
    if (span.kernel < 0 || match.predicted_of[i] < 0) continue;
    const int queue = measured.kernels[static_cast<std::size_t>(span.kernel)].queue;
    const auto [from, to] = truth.equal_range({span.start_ps, queue});
    const model::Span& found = predicted.spans[static_cast<std::size_t>(match.predicted_of[i])];
    if (std::any_of(from, to,
                    [&](const auto& entry) { return of_trace.same_place(predicted, found, *entry.second->span); }))
      shares.right += static_cast<double>(span.duration_ps) * 1e-12 / match.all_s;
  }
  return shares;
}

void expect_found(const std::string& plan, const std::string& profile, const std::vector<std::string>& overrides,
                  std::int32_t rank) {
  const sim::Inputs inputs = tests::step_inputs(plan, profile, overrides);
  const model::Timeline predicted = all_kernels(inputs, {rank});
  const auto kernels = tests::stripped_kernels(predicted, rank);
  ASSERT_GT(kernels.size(), 100U);
  const Shares shares = shares_of(predicted, rank, kernels, {predicted});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

const std::vector<std::string> small_pipeline = {"cluster.gpus=16", "parallelism.pipeline=4",
                                                 "batch.global_batch_size=32"};

std::vector<std::string> with(std::vector<std::string> overrides, const std::vector<std::string>& more) {
  overrides.insert(overrides.end(), more.begin(), more.end());
  return overrides;
}

TEST(StepMatch, FindsTheKernelsOf1F1B) {
  expect_found(tests::llama_plan, "h800-public", with(small_pipeline, {"schedule.kind=1f1b"}), 1);
}

TEST(StepMatch, FindsTheKernelsOfInterleavedStages) {
  expect_found(tests::llama_plan, "h800-public",
               with(small_pipeline, {"schedule.kind=interleaved", "schedule.virtual_stages=2"}), 2);
}

TEST(StepMatch, FindsTheKernelsOfZbV) {
  expect_found(tests::llama_plan, "h800-public", with(small_pipeline, {"schedule.kind=zb-v"}), 0);
}

TEST(StepMatch, FindsTheKernelsOfFsdp) {
  expect_found("llama-3-8b-fsdp-64xh100", "h100", {"batch.global_batch_size=256"}, 0);
}

TEST(StepMatch, FindsTheKernelsOfTensorParallelism) {
  expect_found(tests::llama_plan, "h800-public",
               with(small_pipeline, {"parallelism.tensor=4", "parallelism.pipeline=2"}), 1);
}

TEST(StepMatch, FindsTheKernelsOfExpertsUnderDualPipe) {
  expect_found(tests::deepseek_plan, "h800-public", {"batch.global_batch_size=4096"}, 3);
}

// Steps that an H100 executed.
void expect_found_of_h100(const std::string& step, const std::string& plan, const std::vector<std::string>& overrides) {
  const std::string path =
      tests::shipped("calibrate/measured/steps/nvidia-h100-80gb-hbm3-2026-11-" + step + "-step.json");
  sim::Inputs inputs = tests::step_inputs(plan, "h100", overrides);
  const std::string config = tests::shipped("examples/" + inputs.plan.model.config);
  inputs.architecture = model::load_architecture_of(inputs.plan, config).value();
  model::Timeline executed = reports::read_result(model::read_text_file(path).value(), path).value().timeline;
  const model::Timeline predicted = all_kernels(inputs, {0});
  tests::take_kernels(executed, predicted);
  const Shares shares = shares_of(predicted, 0, tests::stripped_kernels(executed, 0, 100), {executed, true});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

TEST(StepMatch, FindsTheKernelsOfAnExecutedStepOfAnH100) { expect_found_of_h100("22-h100-chunk", "h100-chunk", {}); }

TEST(StepMatch, FindsTheKernelsOfAnExecutedStepOfAnH100InBf16) {
  expect_found_of_h100("22-h100-chunk-bf16", "h100-chunk", {"precision.gemm=bf16", "precision.dispatch=bf16"});
}

// On one GPU dispatch and combine are predicted to take no time, and the executor runs them as kernels.
TEST(StepMatch, FindsTheAllToAllsOfOneGpu) { expect_found_of_h100("27-gpu-train", "gpu-train", {}); }

// The kernels of a trace that plumbline wrote have names of operators. Without the classes that the file states, these
// names decide the class, of collectives the kind, too.
TEST(StepMatch, KnowsOperatorsOfThePlanByName) {
  const sim::Inputs inputs = tests::step_inputs(
      tests::llama_plan, "h800-public", with(small_pipeline, {"parallelism.tensor=4", "parallelism.pipeline=2"}));
  const model::Timeline written = all_kernels(inputs, {1});
  std::vector<StrippedKernel> kernels = tests::stripped_kernels(written, 1);
  for (StrippedKernel& kernel : kernels)
    kernel.name = (kernel.name.starts_with("nccl") ? "ncclKernel: " : "") + written.names[kernel.span->name];
  const model::Timeline measured = imported_trace(kernels);
  const TraceComparison comparison = compare_trace(measured, inputs, {}).value();
  EXPECT_EQ(comparison.rank, 1);
  EXPECT_GE(comparison.match.matched_s, least_share * comparison.match.all_s);
  for (const model::ComparedTime& row : comparison.classes) {
    EXPECT_TRUE(row.predicted_s && row.measured_s) << row.name;
    EXPECT_NE(row.name, "other");
  }
}

// Files of plumbline count the ranks of the pipeline, those of PyTorch all GPUs.
TEST(StepMatch, TakesThePipelineRankOfAWrittenTrace) {
  const sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800-public", small_pipeline);
  const model::Timeline measured = imported_trace(tests::stripped_kernels(all_kernels(inputs, {1}), 1));
  const auto rank_of = [&](const TraceOrigin& origin) { return compare_trace(measured, inputs, origin).value().rank; };
  EXPECT_EQ(rank_of({.rank = 2, .world_size = 4, .of_pipeline = true}), 2);
  EXPECT_EQ(rank_of({.rank = 2}), 1);  // the best match
  EXPECT_EQ(rank_of({.rank = 8, .world_size = 16}), 2);
}

MatchItem gemm(double m, double n, double k) { return {.row = MatchRow::gemm, .extents = {m, n, k}}; }

// The gate of a layer is a part of the fused projection, in either order of rows and columns, and never the projection
// behind it, although that has as many FLOPs.
TEST(StepMatch, KeepsGemmsOfOtherShapesApart) {
  const MatchItem gate_up = gemm(8192, 28672, 4096), down = gemm(8192, 4096, 14336), gate = gemm(8192, 14336, 4096);
  EXPECT_EQ(likeness(gate_up, gate), Likeness::same);
  EXPECT_EQ(likeness(gate_up, gemm(14336, 8192, 4096)), Likeness::same);
  EXPECT_EQ(likeness(down, gate), Likeness::none);
  EXPECT_EQ(likeness(down, gemm(0, 0, 0)), Likeness::same);  // its shape is not known
}

// Returns the kernels of each operator's name, by start.
std::map<std::string, std::vector<std::size_t>> by_operator(const model::Timeline& timeline, bool traced) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < timeline.spans.size(); ++i)
    if (timeline.spans[i].kernel >= 0) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return timeline.spans[i].start_ps; });
  std::map<std::string, std::vector<std::size_t>> found;
  for (const std::size_t i : order) {
    const model::Span& span = timeline.spans[i];
    const std::string& note = timeline.kernels[static_cast<std::size_t>(span.kernel)].note;
    std::string name = traced ? std::string(note_value(note, "kernel")) : timeline.names[span.name];
    if (const std::size_t end = name.rfind("::"); end != std::string::npos) name.erase(0, end + 2);
    found[name].push_back(i);
  }
  return found;
}

// A step of host-train as `plumbline run --trace --trace-ranks 0` wrote it. Both executors run one program: the n-th
// kernel of an operator is the n-th that is predicted.
TEST(StepMatch, FindsTheKernelsOfAStepThatAHostExecuted) {
  const model::Timeline measured =
      import_kineto(tests::shipped("tests/data/host-train-trace.json.gz"), tests::shipped_kernel_classes(), {})
          .value()
          .timeline;
  const model::Timeline predicted = all_kernels(tests::step_inputs("host-train", "host-datasheet"), {0});
  const StepMatch match = match_step(predicted, 0, measured);
  EXPECT_GE(match.share(), least_share);
  const auto of_prediction = by_operator(predicted, false);
  double right = 0, known = 0;
  for (const auto& [name, kernels] : by_operator(measured, true)) {
    const auto predicted_kernels = of_prediction.find(name);
    if (predicted_kernels == of_prediction.end() || predicted_kernels->second.size() != kernels.size()) continue;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto seconds = static_cast<double>(measured.spans[kernels[i]].duration_ps) * 1e-12;
      known += seconds;
      right += std::cmp_equal(match.predicted_of[kernels[i]], predicted_kernels->second[i]) ? seconds : 0;
    }
  }
  EXPECT_GE(known, 0.6 * match.all_s);  // transfers and the optimizer have other names
  EXPECT_GE(right, least_share * known);
}

// A pipeline of four ranks, of which the trace is of the third.
struct Pipeline {
  sim::Inputs inputs = tests::step_inputs(tests::llama_plan, "h800-public", small_pipeline);
  model::Timeline predicted = all_kernels(inputs, {2});
  std::vector<StrippedKernel> kernels = tests::stripped_kernels(predicted, 2);
};

TEST(StepMatch, FindsTheRankThatATraceIsOf) {
  const Pipeline pipeline;
  const auto found = compare_trace(imported_trace(pipeline.kernels), pipeline.inputs, {}).value();
  EXPECT_EQ(found.rank, 2);
  EXPECT_EQ(found.rank_source, "the best match of 4");
  EXPECT_EQ(
      compare_trace(imported_trace(pipeline.kernels), pipeline.inputs, {.rank = 7, .world_size = 16}).value().rank, 1);
  EXPECT_FALSE(compare_trace(imported_trace(pipeline.kernels), pipeline.inputs, {.pipeline_rank = 4}));
}

TEST(StepMatch, ComparesThePartOfTheStepThatACutTraceHolds) {
  const Pipeline pipeline;
  const auto middle = pipeline.kernels.begin() + static_cast<std::ptrdiff_t>(pipeline.kernels.size() / 2);
  for (const std::vector<StrippedKernel>& half : {std::vector<StrippedKernel>(pipeline.kernels.begin(), middle),
                                                  std::vector<StrippedKernel>(middle, pipeline.kernels.end())}) {
    const auto found = compare_trace(imported_trace(half), pipeline.inputs, {.pipeline_rank = 2}).value();
    EXPECT_NEAR(found.reached, 0.5, 0.05);
    EXPECT_GE(found.match.share(), least_share);
    ASSERT_FALSE(found.notes.empty());
    EXPECT_NE(found.notes.front().find("it was cut, or the plan differs"), std::string::npos);
    const auto own =
        compare_trace(imported_trace(half), pipeline.inputs, {.pipeline_rank = 2, .world_size = 4, .of_pipeline = true})
            .value();
    EXPECT_NE(own.notes.back().find("--trace-ranks"), std::string::npos);
  }
  EXPECT_GE(shares_of(pipeline.predicted, 2, {pipeline.kernels.begin(), middle}, {pipeline.predicted}).right,
            least_share);
}

// Names without a class are placed by the kernels around them.
TEST(StepMatch, PlacesKernelsOfUnknownNames) {
  Pipeline pipeline;
  for (StrippedKernel& kernel : pipeline.kernels)
    if (kernel.name.find("rmsnorm") != std::string::npos) kernel.name = "my_own_kernel";
  const Shares shares = shares_of(pipeline.predicted, 2, pipeline.kernels, {pipeline.predicted});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

bool has_note(const TraceComparison& comparison, const char* text) {
  return std::ranges::any_of(comparison.notes,
                             [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

// A step that ran all forwards first finds layers and phases in the plan of 1F1B, and a note states the other order.
TEST(StepMatch, FindsKernelsInAnotherOrderOfMicroBatches) {
  const Pipeline pipeline;
  const sim::Inputs ran =
      tests::step_inputs(tests::llama_plan, "h800-public", with(small_pipeline, {"schedule.kind=gpipe"}));
  const model::Timeline other = all_kernels(ran, {2});
  const auto kernels = tests::stripped_kernels(other, 2);
  const Shares shares = shares_of(pipeline.predicted, 2, kernels, {other, false, true});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, 0.9);
  EXPECT_GT(shares.reordered, 0.1);
  const auto found = compare_trace(imported_trace(kernels), pipeline.inputs, {.pipeline_rank = 2}).value();
  EXPECT_TRUE(has_note(found, "runs in another order than the plan's"));
  EXPECT_GT(found.reached, 0.9);
}

// Every tenth kernel changes places with the next one of its stream.
TEST(StepMatch, FindsKernelsThatChangedPlaces) {
  Pipeline pipeline;
  StrippedKernel* last = nullptr;
  int count = 0;
  for (StrippedKernel& kernel : pipeline.kernels) {
    if (kernel.stream != 7) continue;
    if (last != nullptr && ++count % 10 == 0) {
      std::swap(last->name, kernel.name);
      std::swap(last->span, kernel.span);
      std::swap(last->duration_ns, kernel.duration_ns);
    }
    last = &kernel;
  }
  const Shares shares = shares_of(pipeline.predicted, 2, pipeline.kernels, {pipeline.predicted});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, least_share);
}

// Moves the kernels that compute so that the forwards of two layers run again before both backwards, where each is
// predicted to run before its own.
void recompute_in_pairs(const model::Timeline& predicted, std::vector<StrippedKernel>& kernels) {
  std::vector<StrippedKernel*> computes;
  for (StrippedKernel& kernel : kernels)
    if (kernel.stream == 7) computes.push_back(&kernel);
  const auto again = [&](std::size_t i) { return runs_again(predicted, *computes[i]->span); };
  const auto end_of_part = [&](std::size_t first) {
    std::size_t end = first;
    while (end < computes.size() && computes[end]->span->layer == computes[first]->span->layer &&
           again(end) == again(first))
      ++end;
    return end;
  };
  for (std::size_t at = 0; at < computes.size();) {
    const std::size_t backward = end_of_part(at), other = end_of_part(backward), end = end_of_part(other);
    if (!again(at)) {
      at = backward;
      continue;
    }
    std::vector<std::pair<StrippedKernel, std::int64_t>> moved;  // with the time until the next one starts
    for (std::size_t i = at; i < end; ++i)
      moved.emplace_back(*computes[i],
                         i + 1 < end ? computes[i + 1]->start_ns - computes[i]->start_ns : computes[i]->duration_ns);
    std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>(other - at), moved.end());
    std::int64_t start = computes[at]->start_ns;
    for (std::size_t i = at; i < end; ++i) {
      *computes[i] = moved[i - at].first;
      computes[i]->start_ns = std::exchange(start, start + moved[i - at].second);
    }
    at = end;
  }
}

// Forwards of equal layers follow each other, so that nothing in the trace names the one that ran once more.
TEST(StepMatch, FindsThePhasesOfLayersThatRunAgainInPairs) {
  const sim::Inputs inputs =
      tests::step_inputs(tests::llama_plan, "h800-public", with(small_pipeline, {"recompute.policy=full"}));
  const model::Timeline predicted = all_kernels(inputs, {1});
  std::vector<StrippedKernel> kernels = tests::stripped_kernels(predicted, 1);
  recompute_in_pairs(predicted, kernels);
  for (StrippedKernel& kernel : kernels) {
    const model::Kernel& own = predicted.kernel_of(*kernel.span);
    const auto& [m, n, k, groups] = own.extents;
    if (!own.gemm.empty()) kernel.dims = fmt::format("[[{}, {}], [{}, {}]]", m, k, k, n);
  }
  const Shares shares = shares_of(predicted, 1, kernels, {.timeline = predicted, .other_layers = true});
  EXPECT_GE(shares.matched, least_share);
  EXPECT_GE(shares.right, 0.9);
}

// Every time of the trace is between 80 % and all of the predicted one, and so are the sums. No name of a GEMM states
// that it is a weight gradient.
TEST(TraceComparison, ComparesClassesLayersPhasesAndGemms) {
  const Pipeline pipeline;
  const auto found = compare_trace(imported_trace(pipeline.kernels), pipeline.inputs, {.pipeline_rank = 2}).value();
  const auto expect_rows = [](const std::vector<model::ComparedTime>& rows, std::size_t least_rows) {
    EXPECT_GE(rows.size(), least_rows);
    for (const model::ComparedTime& row : rows) {
      ASSERT_TRUE(row.predicted_s && row.measured_s) << row.name;
      EXPECT_GT(*row.measured_s, 0.79 * *row.predicted_s) << row.name;
      EXPECT_LT(*row.measured_s, 1.03 * *row.predicted_s) << row.name;
    }
  };
  expect_rows(found.layers, 8);  // of 32 layers in four stages
  expect_rows(found.phases, 3);
  std::vector<model::ComparedTime> gemms = found.classes;
  std::erase_if(gemms, [](const model::ComparedTime& row) { return row.name.find("GEMM") == std::string::npos; });
  expect_rows(gemms, 2);
  ASSERT_FALSE(found.gemms.empty());
  for (const ComparedGemm& gemm : found.gemms) {
    EXPECT_GT(gemm.measured_s, 0.8 * gemm.predicted_s) << gemm.shape();
    EXPECT_LT(gemm.measured_s, 1.03 * gemm.predicted_s) << gemm.shape();
  }
  EXPECT_FALSE(found.worst.empty());
}

}  // namespace
}  // namespace plumbline::calibrate
