#include "sim/tasks/inputs_key.h"

#include <algorithm>
#include <vector>

#include "model/base/bytes.h"
#include "model/base/text_file.h"
#include "model/routing/files.h"
#include "model/schedule/schedule.h"
#include "sim/campaign/campaign.h"

namespace plumbline::sim {
namespace {

// Returns the text of a placement file:PATH; of one that cannot be read, nothing.
std::string named_text(const std::optional<std::string>& value) {
  constexpr std::string_view prefix = "file:";
  if (!value || !value->starts_with(prefix)) return "";
  return model::read_file(value->substr(prefix.size())).value_or("");
}

std::vector<std::pair<model::ShapeKey, double>> sorted(const model::ShapeFactors* shapes) {
  if (shapes == nullptr) return {};
  std::vector<std::pair<model::ShapeKey, double>> all(shapes->all().begin(), shapes->all().end());
  std::ranges::sort(all);
  return all;
}

}  // namespace

std::string bytes_of(const Inputs& inputs) {
  const model::Profile& profile = inputs.profile;
  std::string bytes = model::to_bytes(
      model::to_toml(inputs.plan), inputs.plan.file, inputs.plan.software, named_text(inputs.plan.cluster.placement),
      inputs.architecture, inputs.cluster, profile.name(), profile.parameters(), profile.devices(), profile.stack(),
      profile.fits(), inputs.fabric, inputs.power_exponent, inputs.left, inputs.memory_left, inputs.rate_left,
      inputs.ttft_left, inputs.every_link, inputs.slow_gpus);
  model::ByteWriter writer(bytes);
  if (inputs.plan.files) writer.add(*inputs.plan.files);
  if (inputs.plan.schedule_file) writer.add(inputs.plan.schedule_file->build({}).ranks);
  if (inputs.draft) writer.add(*inputs.draft);
  if (inputs.engines) writer.add(bytes_of(*inputs.engines));
  if (inputs.reward) writer.add(*inputs.reward);
  if (inputs.campaign) writer.add(*inputs.campaign);
  for (const auto& [shape, factor] : sorted(inputs.shapes)) writer.add(shape, factor);
  return bytes;
}

}  // namespace plumbline::sim
