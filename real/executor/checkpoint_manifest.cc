#include "real/executor/checkpoint_manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "model/base/text_file.h"
#include "real/executor/checkpoint_header.h"

namespace plumbline::real {
namespace {

using Json = nlohmann::json;

// Keys are sorted and numbers written so that they read back exactly: equal content gives equal text.
Json content_of(const CheckpointManifest& manifest) {
  const TrainingProgress& progress = manifest.progress;
  return {{"fingerprint", manifest.fingerprint},
          {"ranks", manifest.files.size()},
          {"step", progress.step},
          {"updates", progress.updates},
          {"sequences", progress.sequences},
          {"loss_scale", {{"factor", progress.loss_scale.factor}, {"good_steps", progress.loss_scale.good_steps}}},
          {"files_crc32", manifest.files}};
}

CheckpointManifest manifest_of(const Json& content) {
  CheckpointManifest manifest;
  content.at("fingerprint").get_to(manifest.fingerprint);
  content.at("step").get_to(manifest.progress.step);
  content.at("updates").get_to(manifest.progress.updates);
  content.at("sequences").get_to(manifest.progress.sequences);
  content.at("loss_scale").at("factor").get_to(manifest.progress.loss_scale.factor);
  content.at("loss_scale").at("good_steps").get_to(manifest.progress.loss_scale.good_steps);
  content.at("files_crc32").get_to(manifest.files);
  return manifest;
}

tl::unexpected<model::Error> damaged(const std::string& path) {
  return tl::unexpected(model::Error{.message = "is damaged",
                                     .file = path,
                                     .hint = "remove this checkpoint's folder to continue from the one before it"});
}

}  // namespace

std::string to_json(const CheckpointManifest& manifest) {
  const Json content = content_of(manifest);
  const Json file = {
      {"plumbline_checkpoint", checkpoint_version}, {"content", content}, {"crc32", crc32_of(content.dump())}};
  return file.dump(2) + "\n";
}

model::Result<CheckpointManifest> read_manifest(const std::string& path) {
  const auto text = model::read_text_file(path);
  if (!text) return tl::unexpected(text.error());
  try {
    const Json file = Json::parse(*text);
    const auto version = file.at("plumbline_checkpoint").get<std::int64_t>();
    if (version != checkpoint_version) {
      return tl::unexpected(
          model::Error{.message = fmt::format("is of version {}; version {} can be read", version, checkpoint_version),
                       .file = path,
                       .hint = "continue with the plumbline that wrote it"});
    }
    const Json& content = file.at("content");
    if (crc32_of(content.dump()) != file.at("crc32").get<std::uint32_t>()) return damaged(path);
    return manifest_of(content);
  } catch (const Json::exception&) {
    return damaged(path);
  }
}

}  // namespace plumbline::real
