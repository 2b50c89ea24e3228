// Parameters and FLOPs of a model, counted from the operator graphs that are simulated.
#pragma once

#include <cstdint>
#include <optional>

#include "model/architecture/architecture.h"
#include "model/graph/recompute.h"
#include "model/layers/blocks.h"

namespace plumbline::model {

struct ModelMetrics {
  double parameters = 0;                     // without multi-token prediction
  double active_parameters = 0;              // used by one token (one row of an untied embedding), likewise
  double embedding_parameters = 0;           // in `parameters`: token table, learned positions, untied head
  double prediction_parameters = 0;          // those of the multi-token-prediction modules, not shared ones
  std::optional<double> trained_parameters;  // those of adapters, not in the others; nothing: all are trained
  // Training FLOPs per token (forward and backward, no recomputation) of all matrix parameters including router and
  // head, without embedding and multi-token prediction. Attention is counted in full or causally. A frozen matrix has
  // no weight gradient: two GEMMs in place of three.
  double flops_per_token = 0;
  double flops_per_token_causal = 0;
};

// Counts a model for one sequence length, independently of any parallelism.
ModelMetrics model_metrics(const Architecture& architecture, std::int64_t sequence_length,
                           const Adapters& adapters = {});

// Returns the FLOPs per token that a block computes again under a policy, with attention in full or causally.
double recomputed_flops_per_token(const Architecture& architecture, std::int64_t sequence_length, BlockKind kind,
                                  const RecomputePolicy& policy, bool causal);

}  // namespace plumbline::model
