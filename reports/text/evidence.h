// How much of a predicted step rests on which kind of evidence.
#pragma once

#include <cstddef>
#include <vector>

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

}  // namespace plumbline::reports
