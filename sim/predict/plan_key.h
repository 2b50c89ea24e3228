// The parts of a plan that decide one part of its evaluation, as bytes to look that part up by. Whole sections of a
// plan are added with all their members, so that no plan key is left out.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "model/base/bytes.h"
#include "model/layers/context.h"
#include "model/plan/layout.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

class PlanKey {
 public:
  PlanKey& clear() {
    bytes_.clear();
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

  // Adds values as model::ByteWriter does, and of pointers the addresses.
  template <class... Values>
  PlanKey& add(const Values&... values) {
    (one(values), ...);
    return *this;
  }

 private:
  template <class Value>
  void one(const Value& value) {
    if constexpr (std::is_pointer_v<Value>)
      one(reinterpret_cast<std::uintptr_t>(value));
    else
      model::ByteWriter(bytes_).add(value);
  }

  std::string bytes_;
};

// Adds what decides the graphs of the blocks and how slots are composed of them.
void add_graphs(const model::Plan& plan, const model::LayerContext& degrees, PlanKey& key);
// Adds what decides the cost functions. wired: the inputs have links, so it counts where ranks and groups lie, too.
void add_costs(const model::Plan& plan, const model::Layout& layout, bool wired, PlanKey& key);
// Adds what decides how uneven the ranks of an expert group are.
void add_imbalance(const model::Plan& plan, PlanKey& key);
// Adds what decides which rank holds which of a stage's parameters, and how they are reduced, updated and gathered.
void add_sharding(const model::Plan& plan, const model::Layout& layout, PlanKey& key);
// Adds what decides the blocks of each stage.
void add_stages(const model::Plan& plan, const model::Layout& layout, PlanKey& key);

}  // namespace plumbline::sim
