// Descriptions that the reports share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "model/schedule/schedule.h"
#include "reports/text/table.h"

namespace plumbline::reports {

using model::model_name;

std::string_view describe(model::OpType type);                             // "forward", "overlapped pair", ...
std::string hardware(const model::Plan& plan, const std::string& device);  // "2,048 H800 (h800-...)"
std::string constants_words(const model::StepResult& result);              // "profile h800, stack deepseek-v3"
std::string parallelism(const model::Plan& plan);  // "dualpipe, pipeline 16, expert 64, data 128, ZeRO-1, fp8"
// Returns the first lines of an answer about a plan: model and hardware, and below them parallelism().
std::string plan_title(const model::Plan& plan, const std::string& device, Style style);
std::string routing(const model::Plan& plan);  // "routing balanced by force (assumed: ...)"
// Returns "assumed: dispatcher alltoall (hybridep: -31.2 %)": what the plan leaves open, its other usual value, and by
// how much that moves the time; empty where nothing does.
std::string assumed_words(const std::vector<model::AssumedKey>& assumed);
std::string stage_list(const model::RankMemory& rank);  // "3, 12"

// The part of a predicted step that depends on one kind of evidence.
struct EvidenceShare {
  model::Evidence kind = model::Evidence::assumed;
  double share = 0;           // sum of share_of_step
  std::size_t constants = 0;  // how many constants
};

// Returns the kinds that occur, from measured to assumed.
std::vector<EvidenceShare> evidence_shares(const std::vector<model::ProvenanceEntry>& provenance);

// Returns "Software stack x: 3.1 % (4 constants)." of the constants that come from a stack; empty where none does.
std::string stack_share(const std::vector<model::ProvenanceEntry>& provenance);

// Returns the constants without a measurement (datasheet or assumed), largest share first, ties in the given order.
std::vector<model::ProvenanceEntry> unmeasured(const std::vector<model::ProvenanceEntry>& provenance);

// Returns the number of constants of each kind, among those whose names begin with `prefix`: "3 measured, 2 assumed".
std::string evidence_counts(const std::vector<model::Parameter>& parameters, std::string_view prefix = "");

}  // namespace plumbline::reports
