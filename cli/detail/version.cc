#include "cli/detail/version.h"

#include <fmt/format.h>

#include "cli/data.h"
#include "model/base/version.h"

namespace plumbline::cli {

std::string version_text() {
  return fmt::format("plumbline {}\nrevision {}\n{}\noutput contract {}", model::version, source_revision(),
                     PLUMBLINE_FEATURES, model::schema);
}

}  // namespace plumbline::cli
