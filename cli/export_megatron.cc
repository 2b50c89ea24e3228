#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "cli/data.h"
#include "cli/export.h"
#include "cli/output.h"
#include "model/base/text_file.h"
#include "model/megatron/config.h"
#include "model/megatron/export.h"
#include "model/plan/plan.h"

namespace plumbline::cli {

model::Result<void> export_megatron(const ExportArguments& arguments) {
  const auto plan_path = resolve_plan(arguments.plan);
  if (!plan_path) return tl::unexpected(plan_path.error());
  const auto plan = model::load_plan(*plan_path, arguments.overrides);
  if (!plan) return tl::unexpected(plan.error());
  const auto config_path = resolve_model(plan->file, plan->model.config);
  if (!config_path) return tl::unexpected(config_path.error());
  const auto config = model::read_text_file(*config_path);
  if (!config) return tl::unexpected(config.error());
  const auto shape = model::megatron::shape_of(*config, *config_path, plan->model.overrides);
  if (!shape) return tl::unexpected(shape.error());
  const auto exported = model::megatron::export_script(*plan, *shape);
  if (!exported) return tl::unexpected(exported.error());
  if (auto written = write_output(arguments.out, exported->script); !written) return written;
  for (const std::string& note : exported->notes) fmt::print(stderr, "{}\n", note);
  return {};
}

}  // namespace plumbline::cli
