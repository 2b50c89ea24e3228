// Explains why one step takes longer than another, or an output token more of GPUs: splits the difference by causes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/result/result.h"
#include "model/result/serving_result.h"

namespace plumbline::model {

struct WaterfallRow {
  std::string name;             // "GEMM", "exposed communication", "bubble", ...
  double from_s = 0, to_s = 0;  // seconds of a step, on rank 0
  double change_s() const { return to_s - from_s; }
};

struct Waterfall {
  double from_s = 0, to_s = 0;     // the two step times, or GPU-seconds of deployments
  std::vector<WaterfallRow> rows;  // in a fixed order; they add up to both times; rows that both lack are left out
  double change_s() const { return to_s - from_s; }
};

enum class WaterfallDetail {
  categories,  // all memory-bound classes are one row
  classes      // each class of the breakdown is a row
};

// Returns the rows of rank 0: the classes of compute; "exposed communication" inside the slots, without waits for
// gathered parameters, which are "exposed parameter gather"; "point-to-point" and "bubble"; "exposed input"; "exposed
// copy to the host"; "exposed gradient reduction", from the last slot to the last reduction; "optimizer", the rest of
// optimizer_s. Parts that one of the steps does not separate (a measured one: messages from the bubble, gathers from
// other exposed communication) are one row of both. Where either step lacks a breakdown (closed form), compute and
// exposed times in slots are one row, "slots". Time that a result does not attribute is "not attributed".
Waterfall waterfall(const StepTimes& from, const StepTimes& to, WaterfallDetail detail = WaterfallDetail::categories);

// Returns the GPU-seconds of all GPUs that a thousand output tokens take: the parts of a decode step, and "prompts", by
// which a token takes longer than its share of a decode step, or that GPUs take that only prefill. Their price per hour
// makes a cost of them.
Waterfall waterfall(const ServingResult& from, const ServingResult& to);

// Returns the parts of steps of reinforcement learning; "halves at once" is what asynchronous ones save, below 0.
Waterfall waterfall(const RolloutResult& from, const RolloutResult& to);

// Returns the rows that explain most of the change, largest first, in one line: "bubble +0.81 s, exposed communication
// +0.32 s (GEMM -0.10 s)", with opposite changes in brackets. "" when no row changes by over a millionth of the step.
std::string main_reasons(const Waterfall& waterfall, std::size_t most = 3);

}  // namespace plumbline::model
