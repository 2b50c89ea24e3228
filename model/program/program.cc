#include "model/program/program.h"

#include <fmt/format.h>

namespace plumbline::model {

std::string span_name(Section section, Phase phase) {
  return fmt::format("{}({})", to_string(section), phase == Phase::I ? "B" : to_string(phase));
}

}  // namespace plumbline::model
