// Finds the predicted kernel of every kernel of a trace, by class, order and shape, so that each gets layer, phase and
// micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::calibrate {

struct StepMatch {
  // [index of a measured span] the predicted span with its layer, phase and micro-batch; -1: none, or no kernel.
  std::vector<std::int32_t> predicted_of;
  // [index of a measured span] has no counterpart of its class, and takes its place from the kernels around it.
  std::vector<bool> by_place;
  // [index of a predicted span] the measured span that covers it; -1: none. Several may share one, which is fused.
  std::vector<std::int32_t> measured_of;
  // Kernel seconds of the trace: with a counterpart, placed by their neighbors, and all.
  double matched_s = 0, placed_s = 0, all_s = 0;
  // The mean gain of a GEMM or attention kernel of the trace: about 2 in the order of the plan, below 1 in another.
  double score = 0;

  double share() const { return all_s > 0 ? (matched_s + placed_s) / all_s : 0; }
};

// Matches the kernels of a trace with those of a pipeline rank of a step that was predicted with all kernels
// (sim::Recording::data).
//
// GEMMs and attention are aligned first, in the order of their starts, over all streams that compute: each by its
// class, the phase that its name or an annotation states, its shape where the trace has it, and its time against the
// mean of its class. What runs between two of them is aligned in the same way within this gap; a kernel whose class was
// not predicted there is placed by its neighbors. Communication follows, kind by kind, by when it ran relative to the
// kernels that computed.
StepMatch match_step(const model::Timeline& predicted, std::int32_t rank, const model::Timeline& measured);

// Returns the measured seconds of each predicted span, launch gaps included; 0 where nothing matches it. Several
// kernels that stand for it are added up; one that stands for several counts for each in proportion to their predicted
// times.
std::vector<double> measured_seconds(const StepMatch& match, const model::Timeline& predicted,
                                     const model::Timeline& measured);

}  // namespace plumbline::calibrate
