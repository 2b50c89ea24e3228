#include "model/schedule/schedule.h"

#include <cassert>

namespace plumbline::model {

std::string_view to_string(OpType type) {
  switch (type) {
    case OpType::F:
      return "F";
    case OpType::B:
      return "B";
    case OpType::I:
      return "I";
    case OpType::W:
      return "W";
    case OpType::FB:
      return "FB";
  }
  assert(false);
  return "";
}

double ScheduleCosts::of(OpType type) const {
  switch (type) {
    case OpType::F:
      return F;
    case OpType::B:
      return B;
    case OpType::I:
      return I;
    case OpType::W:
      return W;
    case OpType::FB:
      return FB;
  }
  assert(false);
  return 0;
}

std::int32_t Schedule::rank_of(std::int32_t direction, std::int32_t stage) const {
  switch (placement) {
    case Placement::looped:
      return stage % shape.ranks;
    case Placement::mirrored:
      return direction == 0 ? stage : shape.ranks - 1 - stage;
    case Placement::vee:
      return stage < shape.ranks ? stage : 2 * shape.ranks - 1 - stage;
  }
  assert(false);
  return 0;
}

}  // namespace plumbline::model
