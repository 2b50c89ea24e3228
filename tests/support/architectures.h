// The shipped models.
#pragma once

#include <string>

#include "model/architecture/load_architecture.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {

// Returns e.g. architecture("deepseek-v3").
inline model::Architecture architecture(const std::string& name) {
  return model::load_architecture(shipped("examples/models/" + name + ".json")).value();
}

}  // namespace plumbline::tests
