#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "calibrate/chunk/chunk.h"
#include "calibrate/match/detail/comparing.h"
#include "calibrate/match/trace_comparison.h"
#include "model/base/text.h"
#include "model/result/comparison.h"
#include "sim/predict/predictor.h"

namespace plumbline::calibrate {
namespace {

using model::ComparedTime;
using model::Interval;
using model::Span;
using model::Timeline;
using Intervals = std::vector<Interval>;

constexpr double whole_step_share = 0.98;  // of the predicted kernel time, from which a trace is of the whole step

// Whether a kernel is a GEMM or attention, by which the others are placed.
bool is_anchor(const model::Kernel& kernel) {
  return kernel.row == "GEMM" || kernel.row == "weight-gradient GEMM" || kernel.row == "attention";
}

// Returns the row of a predicted kernel's phase: "F", "I", "W", "recomputed F" or "optimizer".
std::string phase_name(const model::Kernel& kernel) {
  if (note_value(kernel.note, "recomputed") == "1") return "recomputed F";
  return kernel.phase.empty() ? "optimizer" : kernel.phase;
}

// Returns how long the stream of a kernel paused before it, as `import kineto` notes it.
std::int64_t wait_of(const model::Kernel& kernel) {
  constexpr double wait_ps_per_us = 1e6;
  return std::llround(wait_ps_per_us * model::parse_number<double>(note_value(kernel.note, "wait_us")).value_or(0));
}

class TraceComparer {
 public:
  TraceComparer(const Timeline& measured, TraceComparison& result) : measured_(measured), result_(result) {}

  void run(bool whole_step) {
    find_reach(whole_step);
    for (std::size_t i = 0; i < measured_.spans.size(); ++i)
      if (measured_.spans[i].kernel >= 0) add_measured(i);
    for (std::size_t i = 0; i < result_.predicted.spans.size(); ++i)
      if (reaches(result_.predicted.spans[i])) add_predicted(i);
    result_.classes = classes_.longest_first();
    result_.layers = layers_.longest_first();
    for (ComparedTime& row : result_.layers) row.slot = layer_numbers_[row.name];
    std::ranges::stable_sort(result_.layers, {}, &ComparedTime::slot);
    result_.phases = phases_.longest_first();
    add_totals();
    add_gemms();
    add_unmatched();
    result_.worst = worst_differences(result_);
  }

 private:
  // What lies in front of the first GEMM or attention of a trace that runs in the order of the plan, or behind the
  // last.
  struct Outside {
    std::int64_t measured_ps = 0, predicted_ps = 0;   // where this kernel begins, or ends
    double measured = 0, predicted = 0, anchors = 0;  // seconds; those of predicted GEMMs and attention

    // Whether the trace goes on as the step does: it lacks no GEMM there, and much of the other kernels is there.
    bool held(double all_anchors, bool whole_step) const {
      constexpr double few = 0.02, much = 0.2;
      return anchors <= few * all_anchors && (whole_step || measured >= much * predicted);
    }
  };

  // The trace spans the predicted kernels from the first to the last of its GEMMs and attention that runs in the order
  // of the plan, and what lies outside of them where it goes on as the step does.
  void find_reach(bool whole_step) {
    constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
    Outside front{never, never}, end;
    for (std::size_t i = 0; i < measured_.spans.size(); ++i) {
      const Span& span = measured_.spans[i];
      if (result_.match.by[i] != MatchedBy::order || !is_anchor(measured_.kernel_of(span))) continue;
      const Span& own = result_.predicted.spans[static_cast<std::size_t>(result_.match.predicted_of[i])];
      front.measured_ps = std::min(front.measured_ps, span.start_ps);
      front.predicted_ps = std::min(front.predicted_ps, own.start_ps);
      end.measured_ps = std::max(end.measured_ps, span.end_ps());
      end.predicted_ps = std::max(end.predicted_ps, own.end_ps());
    }
    double anchors = 0, all = 0, inside = 0;
    for (const Span& span : measured_.spans) {
      if (span.kernel < 0) continue;
      front.measured += span.start_ps < front.measured_ps ? span.seconds() : 0;
      end.measured += span.end_ps() > end.measured_ps ? span.seconds() : 0;
    }
    for (const Span& span : result_.predicted.spans) {
      if (span.kernel < 0 || span.rank != result_.rank) continue;
      const double seconds = span.seconds();
      const double of_anchor = is_anchor(result_.predicted.kernel_of(span)) ? seconds : 0;
      all += seconds;
      anchors += of_anchor;
      const bool in_front = span.start_ps < front.predicted_ps;
      const bool behind = span.end_ps() > end.predicted_ps;
      inside += in_front || behind ? 0 : seconds;
      for (auto& [side, outside] : {std::pair(&front, in_front), std::pair(&end, behind)}) {
        side->predicted += outside ? seconds : 0;
        side->anchors += outside ? of_anchor : 0;
      }
    }
    const bool from_start = front.held(anchors, whole_step), to_end = end.held(anchors, whole_step);
    inside += (from_start ? front.predicted : 0) + (to_end ? end.predicted : 0);
    first_ps_ = from_start ? 0 : front.predicted_ps;
    last_ps_ = to_end ? never : end.predicted_ps;
    result_.reached = all > 0 ? inside / all : 0;
    if (result_.reached >= whole_step_share) return;
    result_.notes.push_back(
        fmt::format("The trace spans {:.0f} % of the predicted kernel time of the step: it was cut, or the plan "
                    "differs. Only this part is compared, and micro-batches are counted from where it fits best.",
                    100 * result_.reached));
  }

  bool reaches(const Span& span) const {
    return span.kernel >= 0 && span.rank == result_.rank && span.start_ps >= first_ps_ && span.end_ps() <= last_ps_;
  }

  void add_measured(std::size_t index) {
    const Span& span = measured_.spans[index];
    const model::Kernel& kernel = measured_.kernel_of(span);
    const double seconds = span.seconds() + static_cast<double>(kernel.gap_ps) * 1e-12;
    measured_busy_.add(span, kernel);
    if (note_value(kernel.note, "wait") == "host" && !model::is_communication(kernel.row))
      host_waits_.push_back({span.start_ps - wait_of(kernel), span.start_ps});
    const std::int32_t own = result_.match.predicted_of[index];
    const Span* place = own < 0 ? nullptr : &result_.predicted.spans[static_cast<std::size_t>(own)];
    // The names of most GEMMs do not state that they are weight gradients: their match does.
    const bool by_match = place != nullptr && is_anchor(kernel) && result_.match.by[index] != MatchedBy::neighbors;
    add_rows(by_match ? result_.predicted.kernel_of(*place) : kernel, place, &ComparedTime::measured_s, seconds);
  }

  void add_predicted(std::size_t index) {
    const Span& span = result_.predicted.spans[index];
    const model::Kernel& kernel = result_.predicted.kernel_of(span);
    predicted_busy_.add(span, kernel);
    add_rows(kernel, &span, &ComparedTime::predicted_s, span.seconds());
  }

  // Adds a kernel to its class, and to the layer and phase of `place`.
  void add_rows(const model::Kernel& kernel, const Span* place, std::optional<double> ComparedTime::*side,
                double seconds) {
    classes_.add(class_of_kernel(kernel), side, seconds);
    if (model::is_communication(kernel.row)) return;
    phases_.add(place == nullptr ? unknown_ : phase_name(result_.predicted.kernel_of(*place)), side, seconds);
    const std::string layer = place == nullptr   ? unknown_
                              : place->layer < 0 ? "embedding, head, optimizer"
                                                 : fmt::format("{}", place->layer);
    layer_numbers_[layer] =
        place == nullptr || place->layer < 0 ? std::numeric_limits<std::int32_t>::max() : place->layer;
    layers_.add(layer, side, seconds);
  }

  void add_totals() {
    const auto add = [&](const char* name, const std::function<double(const Busy&)>& seconds) {
      result_.totals.push_back({name, seconds(predicted_busy_), seconds(measured_busy_)});
    };
    add("step", [](const Busy& busy) { return busy.seconds(); });
    add("compute busy", [](const Busy& busy) { return model::covered(busy.compute); });
    add("communication busy", [](const Busy& busy) { return model::covered(busy.all_transfers()); });
    add("exposed communication",
        [](const Busy& busy) { return model::covered_without(busy.all_transfers(), busy.compute); });
    add("neither", [](const Busy& busy) { return busy.seconds() - model::covered(busy.all()); });
    result_.totals.push_back(
        {"of it, waits for the host", std::nullopt, model::covered_without(host_waits_, measured_busy_.all())});
    Rows exposed;
    for (const auto& [busy, side] : {std::pair(&predicted_busy_, &ComparedTime::predicted_s),
                                     std::pair(&measured_busy_, &ComparedTime::measured_s)})
      for (const auto& [kind, intervals] : busy->transfers)
        exposed.add(kind, side, model::covered_without(intervals, busy->compute));
    result_.exposed = exposed.longest_first();
  }

  void add_gemms() {
    const auto& spans = result_.predicted.spans;
    const std::vector<MeasuredPart> measured = measured_parts(result_.match, result_.predicted, measured_);
    std::map<std::tuple<std::array<double, 4>, std::string, double>, ComparedGemm> shapes;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (!reaches(spans[i]) || measured[i].seconds <= 0) continue;
      const model::Kernel& kernel = result_.predicted.kernel_of(spans[i]);
      if (kernel.gemm.empty()) continue;
      ComparedGemm& gemm = shapes
                               .try_emplace({kernel.extents, kernel.gemm_kind, kernel.flops},
                                            ComparedGemm{kernel.gemm, kernel.gemm_kind, kernel.extents})
                               .first->second;
      ++gemm.count;
      gemm.predicted_s += spans[i].seconds();
      gemm.measured_s += measured[i].seconds;
      gemm.kernels += measured[i].kernels;
      gemm.flops += measured[i].flops > 0 ? std::min(measured[i].flops, kernel.flops) : kernel.flops;
    }
    for (auto& [shape, gemm] : shapes) {
      for (double ComparedGemm::*const sum :
           {&ComparedGemm::predicted_s, &ComparedGemm::measured_s, &ComparedGemm::kernels, &ComparedGemm::flops})
        gemm.*sum /= static_cast<double>(gemm.count);
      result_.gemms.push_back(gemm);
    }
    std::ranges::stable_sort(result_.gemms, std::greater<>{}, [](const ComparedGemm& gemm) {
      return gemm.measured_s * static_cast<double>(gemm.count);
    });
  }

  void add_unmatched() {
    std::map<std::string, UnmatchedKernels> names;
    for (std::size_t i = 0; i < measured_.spans.size(); ++i) {
      const Span& span = measured_.spans[i];
      if (span.kernel < 0 || result_.match.predicted_of[i] >= 0) continue;
      const model::Kernel& kernel = measured_.kernel_of(span);
      const std::string_view given = note_value(kernel.note, "kernel");
      const std::string name(given.empty() ? std::string_view(kernel.class_name) : given);
      UnmatchedKernels& entry = names.try_emplace(name, UnmatchedKernels{name}).first->second;
      entry.seconds += span.seconds();
      ++entry.count;
    }
    for (auto& [name, entry] : names) result_.unmatched.push_back(std::move(entry));
    std::ranges::stable_sort(result_.unmatched, std::greater<>{}, &UnmatchedKernels::seconds);
    constexpr double enough = 0.95, in_order = 1;
    if (result_.match.order_score < in_order)
      result_.notes.emplace_back(
          "GEMMs and attention of the trace do not follow each other as the plan's do: is this the plan that ran?");
    constexpr double little = 0.02;
    if (result_.match.reordered_share() > little)
      result_.notes.push_back(
          fmt::format("{:.0f} % of the trace's kernel time runs in another order than the plan's: these kernels are "
                      "matched by class, phase and shape, and their micro-batches may be others.",
                      100 * result_.match.reordered_share()));
    if (result_.match.share() < enough)
      result_.notes.push_back(fmt::format(
          "Only {:.0f} % of the trace's kernel time has a counterpart in the prediction: is this the plan that ran?",
          100 * result_.match.share()));
  }

  const std::string unknown_ = "not matched";
  const Timeline& measured_;
  TraceComparison& result_;
  std::int64_t first_ps_ = 0, last_ps_ = std::numeric_limits<std::int64_t>::max();
  Rows classes_, layers_, phases_;
  std::map<std::string, std::int32_t> layer_numbers_;
  Busy predicted_busy_, measured_busy_;
  Intervals host_waits_;
};

struct FoundRank {
  std::int32_t rank = 0;
  std::string source;
};

// Returns the pipeline rank that is given or follows from the trace's rank, which numbers the pipeline outermost. A
// trace of another number of ranks is an error.
model::Result<std::optional<FoundRank>> stated_rank(const model::Plan& plan, const TraceOrigin& origin) {
  const std::int64_t ranks = plan.parallelism.pipeline, gpus = plan.cluster.gpus;
  const std::int64_t all = origin.of_pipeline ? ranks : gpus;
  // A file of plumbline has the ranks up to the highest that was recorded.
  if (origin.of_pipeline ? origin.world_size > ranks : origin.world_size > 0 && origin.world_size != gpus)
    return model::wrong_input("",
                              fmt::format("the trace is of {} {}, the plan of {}", origin.world_size,
                                          origin.of_pipeline ? "pipeline ranks" : "GPUs", all),
                              "compare it with the plan that ran");
  if (origin.plan_gpus > 0 && origin.plan_gpus != gpus)
    return model::wrong_input("",
                              fmt::format("the trace is of a plan for {} GPUs, the plan of {}", origin.plan_gpus, gpus),
                              "compare it with the plan that ran");
  if (origin.pipeline_rank) {
    if (*origin.pipeline_rank < 0 || *origin.pipeline_rank >= ranks)
      return model::wrong_input("--rank", fmt::format("{} is no pipeline rank of the plan", *origin.pipeline_rank),
                                fmt::format("0 to {}", ranks - 1));
    return FoundRank{*origin.pipeline_rank, "as given"};
  }
  if (ranks == 1) return FoundRank{0, "the plan has one"};
  if (origin.rank < 0 || origin.rank >= all || origin.world_size != all) return std::nullopt;
  if (origin.of_pipeline)
    return FoundRank{origin.rank, fmt::format("the trace is of pipeline rank {} of {}", origin.rank, ranks)};
  return FoundRank{static_cast<std::int32_t>(origin.rank / (gpus / ranks)),
                   fmt::format("the trace is of rank {} of {}", origin.rank, gpus)};
}

constexpr double much = 1.15;  // a ratio of times that deserves a cause

struct Hint {
  std::string_view row, slower, faster;
};

constexpr std::string_view clocks = "clocks and power of the GPU; a profile of this machine (plumbline measure)";
constexpr std::string_view unfused = "not fused in the run? show stack lists what runs kernels one by one";
constexpr std::string_view fused = "fused into other kernels in the run? a stack that fuses (show stack)";

constexpr std::array<Hint, 12> compute_hints = {
    {{"attention", "another kernel? attention.kernel; packed documents? batch.document_length", clocks},
     {"norm", unfused, fused},
     {"cast", "not fused into the kernels before? precision.*, or a Transformer Engine stack", fused},
     {"transpose", "not fused into the kernels before? precision.*, or a Transformer Engine stack", fused},
     {"swiglu", unfused, fused},
     {"rotary", unfused, fused},
     {"permute", "rows of experts more than expected? routing.*", "rows of experts fewer than expected? routing.*"},
     {"elementwise, copy, router", unfused, fused},
     {"optimizer", "not fused, or more states? parallelism.zero_stage, precision.optimizer_moments",
      "fewer states? parallelism.zero_stage, precision.optimizer_moments"},
     {"embedding", unfused, fused},
     {"loss", unfused, fused},
     {"other", "kernels without a class: --classes names them", clocks}}};

constexpr std::array<Hint, 7> exposed_hints = {
    {{"reduce_scatter", "overlap.gradient_reduce off in the run? smaller buckets?",
      "overlap.gradient_reduce on in the run?"},
     {"all_reduce", "overlap.gradient_reduce or overlap.tensor off in the run?",
      "overlap.gradient_reduce on in the run?"},
     {"all_gather", "overlap.parameter_gather or overlap.prefetch off in the run?",
      "overlap.parameter_gather on in the run?"},
     {"send_receive", "waits for another stage: uneven stages or a slow rank?", "fewer waits than predicted"},
     {"notify", "waits for other ranks: uneven experts (routing.*) or a slow rank?", "ranks more even than predicted"},
     {"dispatch", "fewer SMs or another library? overlap.communication_sms, stack.dispatcher",
      "another library? overlap.communication_kernels"},
     {"combine", "fewer SMs or another library? overlap.communication_sms, stack.dispatcher",
      "another library? overlap.communication_kernels"}}};

template <std::size_t Size>
std::string hint_of(const std::array<Hint, Size>& hints, const ComparedTime& row) {
  if (!row.predicted_s || *row.predicted_s <= 0) return "not predicted: a part of the run that the plan lacks";
  if (!row.measured_s || *row.measured_s <= 0) return "not in the trace: fused, switched off, or cut";
  const auto hint = std::ranges::find(hints, std::string_view(row.name), &Hint::row);
  if (hint == hints.end()) return "";
  const double ratio = *row.measured_s / *row.predicted_s;
  return fmt::format("{:.1f}x predicted: {}", ratio, ratio > 1 ? hint->slower : hint->faster);
}

std::string gemm_hint(const ComparedGemm& gemm) {
  const double share = gemm.predicted_s / gemm.measured_s;
  const double rate = gemm.flops / gemm.measured_s * 1e-12;
  return fmt::format("{:.0f} TFLOP/s, {:.0f} % of the profile's rate{}", rate, 100 * share,
                     share * much < 1 ? ": clocks, tile, or another format?"
                     : share > much   ? ": the profile is slower than this machine"
                                      : "");
}

// Returns what may explain the time in which nothing runs, of which the trace waits `host` seconds for launches.
std::string idle_hint(const ComparedTime& idle, double host) {
  const double measured = idle.measured_s.value_or(0);
  constexpr double most = 0.5;
  if (host > most * measured)
    return fmt::format("{:.0f} % waits for the host: CUDA graphs, compile, fewer small kernels; --set stack.name",
                       100 * host / measured);
  return measured > idle.predicted_s.value_or(0)
             ? "nothing runs: waits for other ranks, data loading, or launches of the host"
             : "less than predicted: fewer waits for other stages, or a stack with less host time";
}

// Returns the seconds of the trace in a row of the totals.
double measured_total(const TraceComparison& comparison, std::string_view name) {
  const auto row = std::ranges::find(comparison.totals, name, &ComparedTime::name);
  return row == comparison.totals.end() ? 0 : row->measured_s.value_or(0);
}

}  // namespace

std::string ComparedGemm::shape() const {
  const std::string one = fmt::format("{:.0f} x {:.0f} x {:.0f}", extents[0], extents[1], extents[2]);
  return extents[3] > 1 ? fmt::format("{:.0f} x ({})", extents[3], one) : one;
}

model::Result<TraceComparison> compare_trace(const Timeline& trace, const sim::Inputs& inputs,
                                             const TraceOrigin& origin) {
  const auto stated = TRY(stated_rank(inputs.plan, origin));
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(inputs.plan.parallelism.pipeline));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (stated) ranks = {stated->rank};
  sim::Predictor predictor(inputs);
  auto simulation = TRY(predictor.simulate(inputs.plan, {.record = sim::Recording(ranks, true)}));
  TraceComparison result;
  result.predicted = std::move(simulation.timeline);
  const Timeline measured = classified_by_name(trace, result.predicted);
  double best = -std::numeric_limits<double>::infinity();
  for (const std::int32_t rank : ranks) {
    StepMatch match = match_step(result.predicted, rank, measured);
    // Kernels of a step that plumbline ran have the names of the plan's operators: nothing else ran there.
    if (!origin.of_pipeline) undo_impossible(result.predicted, measured, inputs.cluster.device, match);
    const double quality = match.score + match.share() - match.reordered_share();
    if (quality <= best) continue;
    best = quality;
    result.rank = rank;
    result.match = std::move(match);
  }
  result.rank_source = stated ? stated->source : fmt::format("the best match of {}", ranks.size());
  TraceComparer(measured, result).run(origin.whole_step);
  TRY(check_same_run(measured, origin.whole_step, result));
  // Without --trace-ranks a trace of plumbline's own has the kernels of one slot of each kind.
  if (origin.of_pipeline && result.reached < whole_step_share)
    result.notes.emplace_back("A trace of plumbline has the kernels of all slots where --trace-ranks records them.");
  return result;
}

std::string class_of_kernel(const model::Kernel& kernel) {
  if (kernel.row == "collective") return kernel.class_name;
  const bool tiny =
      kernel.row == "elementwise" || kernel.row == "copy" || kernel.row == "router" || kernel.row == "host_link";
  return tiny ? "elementwise, copy, router" : kernel.row;
}

std::vector<TraceDifference> worst_differences(const TraceComparison& comparison) {
  std::vector<TraceDifference> found;
  const auto add = [&](const std::string& what, double predicted, double measured, std::string advice) {
    found.push_back({what, predicted, measured, std::move(advice)});
  };
  for (const ComparedGemm& gemm : comparison.gemms) {
    const auto count = static_cast<double>(gemm.count);
    add(fmt::format("GEMM {} ({} {})", gemm.shape(), gemm.name, gemm.kind), count * gemm.predicted_s,
        count * gemm.measured_s, gemm_hint(gemm));
  }
  const auto values = [](const ComparedTime& row) {
    return std::pair(row.predicted_s.value_or(0), row.measured_s.value_or(0));
  };
  for (const ComparedTime& row : comparison.classes) {
    const bool by_shape = row.name == "GEMM" || row.name == "weight-gradient GEMM";
    const bool transfers =
        std::ranges::find(comparison.exposed, row.name, &ComparedTime::name) != comparison.exposed.end();
    if (by_shape || transfers) continue;
    add(row.name, values(row).first, values(row).second, hint_of(compute_hints, row));
  }
  for (const ComparedTime& row : comparison.exposed)
    add("exposed " + row.name, values(row).first, values(row).second, hint_of(exposed_hints, row));
  for (const ComparedTime& row : comparison.totals)
    if (row.name == "neither")
      add("no kernel runs", values(row).first, values(row).second,
          idle_hint(row, measured_total(comparison, "of it, waits for the host")));
  const auto apart = [](const TraceDifference& d) { return std::abs(d.measured_s - d.predicted_s); };
  const double step = measured_total(comparison, "step");
  constexpr double least_share = 1e-3;
  std::erase_if(found, [&](const TraceDifference& d) { return apart(d) < least_share * step; });
  std::ranges::stable_sort(found, std::greater<>{}, apart);
  constexpr std::size_t most = 10;
  if (found.size() > most) found.resize(most);
  return found;
}

}  // namespace plumbline::calibrate
