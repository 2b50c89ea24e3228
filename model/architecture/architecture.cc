#include "model/architecture/architecture.h"

#include <algorithm>

namespace plumbline::model {

bool Architecture::is_moe_layer(std::int64_t layer) const {
  return experts.routed_experts > 0 && layer >= experts.dense_layers_first &&
         layer % experts.layer_frequency == experts.layer_offset &&
         std::ranges::find(experts.dense_layers, layer) == experts.dense_layers.end();
}

bool Architecture::is_windowed_layer(std::int64_t layer) const {
  return window.tokens > 0 && layer >= window.first_layer &&
         (window.full_every == 0 || (layer + 1) % window.full_every != 0);
}

}  // namespace plumbline::model
