// The parameters of a checkpoint, put together from the parts of the ranks that trained them, so that another division
// of the same model can use them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/architecture/architecture.h"
#include "model/base/error.h"
#include "model/graph/graph.h"
#include "model/plan/plan.h"
#include "model/program/program.h"
#include "real/executor/step/parameter_part.h"

namespace plumbline::real {

class TrainedParameters {
 public:
  // Opens the newest checkpoint of a folder. It may be of any division of the plan's model. Input errors: there is no
  // checkpoint, it is damaged, or it is of another model.
  static model::Result<TrainedParameters> open(const std::string& folder, const model::Plan& plan,
                                               const model::Architecture& architecture);

  // Returns all elements of a parameter or routing bias of a layer, row by row; -1 is the layer of embedding and head.
  // Input errors: the checkpoint does not have it, or is damaged.
  model::Result<std::vector<float>> read(std::int64_t layer, const std::string& name);
  std::int64_t step() const { return step_; }

 private:
  struct Part {  // consecutive elements of what a rank stored
    std::int32_t rank = 0;
    std::string piece;
    std::int64_t first = 0;
    model::Tensor held;
    Division division;
  };
  struct Whole {
    model::Tensor tensor;
    std::vector<Part> parts;
  };
  void add_stage(const model::Plan& trained, const model::Architecture& architecture, const model::Layout& layout,
                 const model::StepProgram& program, std::int32_t stage);
  model::Result<const std::vector<float>*> piece(const Part& part);

  std::string folder_;
  std::int64_t step_ = 0;
  model::Architecture architecture_;
  std::map<std::pair<std::int64_t, std::string>, Whole> wholes_;
  std::map<std::pair<std::int32_t, std::string>, std::vector<float>> pieces_;  // that were read so far
};

}  // namespace plumbline::real
