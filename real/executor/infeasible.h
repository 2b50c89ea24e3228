// The error of a well-formed request that a machine cannot carry out.
#pragma once

#include <string>
#include <utility>

#include "model/base/error.h"

namespace plumbline::real {

inline tl::unexpected<model::Error> infeasible(std::string message, std::string hint = "") {
  return tl::unexpected(
      model::Error{.kind = model::ErrorKind::infeasible, .message = std::move(message), .hint = std::move(hint)});
}

}  // namespace plumbline::real
