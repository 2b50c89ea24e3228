// How much of a predicted step rests on which kind of evidence.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/provenance.h"
#include "model/result/result.h"

namespace plumbline::reports {

struct EvidenceShare {
  model::Evidence kind = model::Evidence::assumed;
  double share = 0;           // sum of share_of_step
  std::size_t constants = 0;  // how many constants
};

// Kinds that occur, from measured to assumed.
std::vector<EvidenceShare> evidence_shares(const std::vector<model::ProvenanceEntry>& provenance);

// The constants nobody measured (datasheet or assumed), largest share first, ties in the given order.
std::vector<model::ProvenanceEntry> unmeasured(const std::vector<model::ProvenanceEntry>& provenance);

// How many constants whose names begin with `prefix` there are of each kind that occurs: "3 measured, 2 assumed".
std::string evidence_counts(const std::vector<model::Parameter>& parameters, std::string_view prefix = "");

}  // namespace plumbline::reports
