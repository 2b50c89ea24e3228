#include "model/training_state.h"

#include <set>
#include <string>

namespace plumbline::model {

namespace {

class StateCounter {
 public:
  StateCounter(const Plan& plan, const Layout& layout) {
    const auto& precision = plan.precision;
    optimizer_bytes_ = bytes_per_element(activation_type(precision.master_weights)) +
                       2 * bytes_per_element(activation_type(precision.optimizer_moments));
    if (plan.parallelism.zero_stage == 0) return;
    expert_shards_ = static_cast<double>(layout.expert_group);
    dense_shards_ = static_cast<double>(layout.dense_group);
  }

  void add(const Tensor& tensor) {
    StateBytes& bytes = tensor.expert ? state_.experts : state_.others;
    if (tensor.role == Role::gradient) {
      bytes.gradients += tensor.bytes();
      return;
    }
    bytes.parameters += tensor.bytes();
    bytes.optimizer += Bytes(tensor.elements() * optimizer_bytes_ / (tensor.expert ? expert_shards_ : dense_shards_));
  }

  const TrainingState& state() const { return state_; }

 private:
  TrainingState state_;
  double optimizer_bytes_ = 0;
  double expert_shards_ = 1, dense_shards_ = 1;
};

bool is_state(const Tensor& tensor) { return tensor.role == Role::parameter || tensor.role == Role::gradient; }

}  // namespace

TrainingState training_state(const Plan& plan, const Layout& layout, const StepProgram& program,
                             const std::vector<std::int64_t>& stages) {
  StateCounter counter(plan, layout);
  std::set<std::string> owned;
  std::vector<const Tensor*> borrowed;
  for (const std::int64_t stage : stages) {
    const StageKind& kind = program.stage_kinds[program.stages[stage].kind];
    for (const std::uint16_t block : kind.blocks) {
      for (const Tensor& tensor : program.blocks[block].tensors) {
        if (!is_state(tensor)) continue;
        if (tensor.shared) {
          borrowed.push_back(&tensor);
          continue;
        }
        counter.add(tensor);
        owned.insert(tensor.name);
      }
    }
  }
  for (const Tensor* tensor : borrowed)
    if (owned.insert(tensor->name).second) counter.add(*tensor);
  return counter.state();
}

}  // namespace plumbline::model
