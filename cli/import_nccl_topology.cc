#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "cli/import.h"
#include "cli/output.h"
#include "topologies/nccl_topology.h"

namespace plumbline::cli {

model::Result<void> import_nccl_topology(const ImportArguments& arguments) {
  const auto imported = topologies::import_nccl_topology(arguments.file);
  if (!imported) return tl::unexpected(imported.error());
  auto written = write_output(arguments.out, imported->toml);
  if (!written) return written;
  for (const std::string& note : imported->notes) fmt::print(stderr, "{}\n", note);
  return {};
}

}  // namespace plumbline::cli
