// A trace of one GPU next to the predicted step of its pipeline rank: each kernel of the trace gets its predicted one,
// by class, order and shape, and with it layer, phase and micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/import/kineto/import.h"
#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/result/comparison.h"
#include "model/result/timeline.h"

namespace plumbline::sim {
struct Inputs;
}  // namespace plumbline::sim

namespace plumbline::calibrate {

// Why a kernel of a trace has the place of a predicted one. order: both are at this place of their sequences;
// other_order: it is of the class, but the trace runs it at another place; neighbors: its class was not predicted
// there.
enum class MatchedBy : std::uint8_t { nothing, order, other_order, neighbors };

struct StepMatch {
  // [index of a measured span] the predicted span with its layer, phase and micro-batch; -1: none, or no kernel.
  std::vector<std::int32_t> predicted_of;
  std::vector<MatchedBy> by;  // [index of a measured span]
  // [index of a predicted span] the measured span that covers it; -1: none. Several may share one, which is fused.
  std::vector<std::int32_t> measured_of;
  // Kernel seconds of the trace: with a counterpart, those of them in another order, placed by their neighbors, all.
  double matched_s = 0, reordered_s = 0, placed_s = 0, all_s = 0;
  // The mean gain of a GEMM or attention kernel of the trace, and the same without its phase and layer, which follow
  // from the order of the trace whatever the plan: about 2 in the order of the plan, below 1 in another.
  double score = 0, order_score = 0;

  double share() const { return all_s > 0 ? (matched_s + placed_s) / all_s : 0; }
  double reordered_share() const { return all_s > 0 ? reordered_s / all_s : 0; }
};

// Matches the kernels of a trace with those of a pipeline rank of a step that was predicted with all kernels
// (sim::Recording::data).
//
// GEMMs and attention are aligned first, in the order of their starts, over all streams that compute: each by its
// class, the phase that its name or an annotation states, its shape where the trace has it, and its time against the
// mean of its class. Those that this leaves out are aligned among themselves, which finds what runs in another order.
// What runs between two of them is aligned in the same way within this gap; a kernel whose class was not predicted
// there is placed by its neighbors. Communication follows, kind by kind, by when it ran relative to the kernels that
// computed.
StepMatch match_step(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured);

// What a trace ran for a predicted kernel.
struct MeasuredPart {
  double seconds = 0;  // launch gaps included; 0 where nothing matches it
  double kernels = 0;  // how many; below 1 where one stands for several predicted ones
  double flops = 0;    // of GEMMs whose shape the trace has; 0: not known
};

// Returns what the trace ran for each predicted span. Several kernels that stand for it are added up; one that stands
// for several counts for each in proportion to their predicted times.
std::vector<MeasuredPart> measured_parts(const StepMatch& match, const model::Timeline& predicted,
                                         const model::Timeline& measured);

// GEMMs of one shape and kind, means of one kernel.
struct ComparedGemm {
  std::string name, kind;           // of the first: "q_b", and fprop, dgrad, wgrad or recompute
  std::array<double, 4> extents{};  // m, n, k, groups
  std::int64_t count = 0;
  double predicted_s = 0, measured_s = 0;
  double kernels = 0;  // of the trace that it ran as
  double flops = 0;    // of these kernels, as far as the trace has their shapes, else of the predicted one

  std::string shape() const;  // "4096 x 24576 x 1536", with groups "4 x (8192 x 4096 x 7168)"
};

struct UnmatchedKernels {
  std::string name;  // as the trace has it, else the class
  double seconds = 0;
  std::int64_t count = 0;
};

struct TraceDifference {
  std::string what;  // "GEMM 4096 x 7168 x 2048 (dgrad)"
  double predicted_s = 0, measured_s = 0;
  std::string advice;
};

struct TraceComparison {
  model::Timeline predicted;  // of the rank
  StepMatch match;
  std::int32_t rank = 0;
  std::string rank_source;  // how the rank was found, in words
  // Seconds of the rank's step, and of its kernels by what they do, by layer and by phase. Kernels that the trace does
  // not reach are left out of the prediction.
  std::vector<model::ComparedTime> totals, classes, layers, phases;
  // Kinds of communication: seconds while no kernel computes.
  std::vector<model::ComparedTime> exposed;
  std::vector<ComparedGemm> gemms;  // the most seconds first
  std::vector<UnmatchedKernels> unmatched;
  std::vector<TraceDifference> worst;  // the largest differences, ten at most
  double reached = 1;                  // share of the predicted kernel time that the trace spans
  std::vector<std::string> notes;      // what limits the comparison, as sentences
};

// Predicts the step with all kernels of the trace's pipeline rank, or where that is unknown of every rank, of which the
// best match is taken, and compares. Errors: those of the prediction; a rank that the plan does not have; a trace of
// another number of ranks, model or batch, with what differs.
model::Result<TraceComparison> compare_trace(const model::Timeline& measured, const sim::Inputs& inputs,
                                             const TraceOrigin& origin);

// Returns a record for each distinct operator of the plan with a kernel of its own in the trace: its shape, FLOPs and
// bytes are the plan's, its time the median over the step, with the launch gap after it. They have the form of `measure
// --plan` (variant in_step). Kernels that ran while a collective or an all-to-all did are taken only where no other of
// the operator is there. Collectives and expert all-to-alls wait for other ranks: the fastest quarter counts. An
// operator that ran as several kernels has no bytes, because theirs are not known. An all-to-all has layout, rendezvous
// and transfer together, on the SMs that the transfer was launched with, and while kernels computed a record of its own
// (in_step_beside). Notes state all of this, and what gives no record and why. The median launch gap is a record of its
// own.
Measurements trace_records(const model::Timeline& measured, const TraceComparison& comparison,
                           const std::string& device, const std::string& path);

}  // namespace plumbline::calibrate
