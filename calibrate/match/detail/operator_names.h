// The operators that the kernels of a trace are named after. The traces that plumbline writes have such names, and so
// has what was made of them by programs that leave out the classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/result/timeline.h"

namespace plumbline::calibrate {

class OperatorNames {
 public:
  // Takes the operators of a step that was predicted with all kernels, which must outlive the object.
  explicit OperatorNames(const model::Timeline& predicted);

  // Returns the number of a predicted span's operator.
  std::int32_t predicted(std::size_t span) const;
  // Returns the number of the operator that the name of a kernel of a trace states; -1: none.
  std::int32_t measured(const model::Kernel& kernel) const;
  // Returns a kernel of the operator, nullptr where its kernels are of several classes.
  const model::Kernel* kernel(std::int32_t named) const { return kernels_[static_cast<std::size_t>(named)]; }

 private:
  const model::Timeline& timeline_;
  std::map<std::string, std::int32_t, std::less<>> numbers_;
  std::vector<const model::Kernel*> kernels_;  // by number
};

// Returns the trace with the classes of predicted operators for the kernels that are named after them and have none, or
// that of collectives without a kind.
model::Timeline classified_by_name(const model::Timeline& measured, const model::Timeline& predicted);

}  // namespace plumbline::calibrate
