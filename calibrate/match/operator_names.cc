#include <string_view>

#include "calibrate/chunk/kernel_timeline.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/import/kineto/import.h"
#include "calibrate/match/detail/comparing.h"

namespace plumbline::calibrate {
namespace {

constexpr std::string_view any_collective = "collective";  // the class of collectives whose names state no kind

// Returns "reduce_gradients" of "plumbline::reduce_scatter::ncclKernel_ReduceScatter:_reduce_gradients", the name
// without the class and the library's prefix.
std::string_view bare_name(const model::Kernel& kernel) {
  constexpr std::string_view scope = "::", prefix = ":_";
  std::string_view name = note_value(kernel.note, "kernel");
  if (const std::size_t at = name.rfind(prefix); at != std::string_view::npos) name.remove_prefix(at + prefix.size());
  if (const std::size_t at = name.rfind(scope); at != std::string_view::npos && name.starts_with("plumbline::"))
    name.remove_prefix(at + scope.size());
  return name;
}

bool same_class(const model::Kernel& a, const model::Kernel& b) {
  return a.row == b.row && a.class_name == b.class_name;
}

}  // namespace

OperatorNames::OperatorNames(const model::Timeline& predicted) : timeline_(predicted) {
  for (const model::Span& span : predicted.spans) {
    if (span.kernel < 0) continue;
    const model::Kernel& kernel = predicted.kernels[static_cast<std::size_t>(span.kernel)];
    const auto [entry, fresh] =
        numbers_.try_emplace(as_word(predicted.names[span.name]), static_cast<std::int32_t>(kernels_.size()));
    if (fresh) {
      kernels_.push_back(&kernel);
    } else if (const model::Kernel*& known = kernels_[static_cast<std::size_t>(entry->second)];
               known != nullptr && !same_class(*known, kernel)) {
      known = nullptr;
    }
  }
}

std::int32_t OperatorNames::predicted(std::size_t span) const {
  return numbers_.at(as_word(timeline_.names[timeline_.spans[span].name]));
}

std::int32_t OperatorNames::measured(const model::Kernel& kernel) const {
  const auto found = numbers_.find(bare_name(kernel));
  return found == numbers_.end() ? -1 : found->second;
}

model::Timeline classified_by_name(const model::Timeline& measured, const model::Timeline& predicted) {
  const OperatorNames names(predicted);
  model::Timeline result = measured;
  for (model::Kernel& kernel : result.kernels) {
    if (kernel.row != other_class && kernel.class_name != any_collective) continue;
    const std::int32_t named = names.measured(kernel);
    const model::Kernel* of_plan = named < 0 ? nullptr : names.kernel(named);
    if (of_plan == nullptr) continue;
    kernel.row = of_plan->row;
    kernel.class_name = of_plan->class_name;
  }
  return result;
}

}  // namespace plumbline::calibrate
