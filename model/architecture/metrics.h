// Parameters and FLOPs of a model, counted from the operator graphs that are simulated.
#pragma once

#include <cstdint>

#include "model/architecture/architecture.h"

namespace plumbline::model {

struct ModelMetrics {
  double parameters = 0;             // without multi-token prediction
  double active_parameters = 0;      // used by one token (one row of an untied embedding), likewise
  double embedding_parameters = 0;   // in `parameters`: token table, learned positions, untied head
  double prediction_parameters = 0;  // those of the multi-token-prediction modules, not shared ones
  // Training FLOPs per token (forward and backward, no recomputation) of all matrix parameters including router and
  // head, without embedding and multi-token prediction. Attention is counted in full or causally.
  double flops_per_token = 0;
  double flops_per_token_causal = 0;
};

// Counts a model for one sequence length, independently of any parallelism.
ModelMetrics model_metrics(const Architecture& architecture, std::int64_t sequence_length);

}  // namespace plumbline::model
