#include "real/executor/training/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "model/base/text_file.h"
#include "real/executor/agreement.h"
#include "real/executor/training/detail/checkpoint_file.h"
#include "real/executor/training/durable_file.h"

namespace plumbline::real {
namespace {

using model::Error;
using model::Result;
using Json = nlohmann::json;

// manifest.json: the data that all ranks of a checkpoint share. It is written last, so a folder with one is complete.
struct CheckpointManifest {
  std::string fingerprint;
  TrainingProgress progress;
  std::vector<std::uint32_t> files;  // CRC-32 of the header of each rank's file
};

// Returns JSON with sorted keys and exactly restorable numbers, so that equal content gives equal text and checksums.
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

bool is_possible(const TrainingProgress& progress) {
  const bool counted = progress.step >= 0 && progress.updates >= 0 && progress.sequences >= 0;
  const double factor = progress.loss_scale.factor;
  return counted && progress.updates <= progress.step && std::isfinite(factor) && factor > 0 &&
         progress.loss_scale.good_steps >= 0;
}

std::string to_json(const CheckpointManifest& manifest) {
  const Json content = content_of(manifest);
  const Json file = {
      {"plumbline_checkpoint", checkpoint_version}, {"content", content}, {"crc32", crc32_of(content.dump())}};
  return file.dump(2) + "\n";
}

// Input errors: another version, a checksum that does not match, or numbers that no training has.
Result<CheckpointManifest> read_manifest(const std::string& path) {
  const auto text = TRY(model::read_file(path));
  TRY(model::check_nesting(text, path));
  try {
    const Json file = Json::parse(text);
    const auto version = file.at("plumbline_checkpoint").get<std::int64_t>();
    if (version != checkpoint_version) return other_version(path, version);
    const Json& content = file.at("content");
    if (crc32_of(content.dump()) != file.at("crc32").get<std::uint32_t>())
      return damaged_checkpoint(path, "is damaged");
    auto manifest = manifest_of(content);
    if (!is_possible(manifest.progress)) return damaged_checkpoint(path, "has numbers that no training has");
    return manifest;
  } catch (const Json::exception&) {
    return damaged_checkpoint(path, "is damaged");
  }
}

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-", partial_suffix = ".partial";
constexpr std::size_t fewest_digits = 8;

fs::path complete_folder(const CheckpointStore& store, std::int64_t step) {
  return fs::path(store.folder) / fmt::format("{}{:0{}}", prefix, step, fewest_digits);
}

fs::path partial_folder(const CheckpointStore& store, std::int64_t step) {
  return fs::path(store.folder) / fmt::format(".{}{:0{}}{}", prefix, step, fewest_digits, partial_suffix);
}

fs::path rank_file(const fs::path& folder, std::int32_t rank) { return folder / fmt::format("rank-{:05}.bin", rank); }

fs::path manifest_file(const fs::path& folder) { return folder / "manifest.json"; }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix) || name.size() < prefix.size() + fewest_digits) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::int64_t step = 0;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (status != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

std::vector<fs::path> entries(const std::string& folder) {
  std::vector<fs::path> paths;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored))
    paths.push_back(entry->path());
  return paths;
}

tl::unexpected<Error> failure(const fs::path& path, const std::string& what, const std::error_code& reason) {
  return tl::unexpected(Error{.message = what + ": " + reason.message(), .file = path.string()});
}

Result<void> make_folder(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return failure(folder, "cannot be created", failed);
  return {};
}

// Rank 0's part before all ranks write: creates an empty folder and removes what interrupted saves left.
Result<void> prepare(const CheckpointStore& store, std::int64_t step) {
  TRY(make_folder(store.folder));
  std::error_code failed;
  for (const fs::path& path : entries(store.folder)) {
    const std::string name = path.filename().string();
    if (!name.starts_with("." + std::string(prefix)) || !name.ends_with(partial_suffix)) continue;
    fs::remove_all(path, failed);
    if (failed) return failure(path, "cannot be removed", failed);
  }
  if (fs::exists(complete_folder(store, step), failed))
    return tl::unexpected(Error{.message = "a checkpoint of this step exists already",
                                .file = complete_folder(store, step).string(),
                                .hint = "continue from it, or use another folder"});
  fs::create_directory(partial_folder(store, step), failed);
  if (failed) return failure(partial_folder(store, step), "cannot be created", failed);
  return {};
}

// Renames old checkpoints before it removes them, so that a half removed one does not look complete. Failures to remove
// are ignored: they only cost disk space.
void remove_old(const CheckpointStore& store) {
  std::vector<std::int64_t> steps = complete_checkpoints(store.folder);
  const auto keep = static_cast<std::size_t>(std::max(store.keep, 1));
  if (steps.size() <= keep) return;
  steps.resize(steps.size() - keep);
  for (const std::int64_t step : steps) {
    std::error_code failed;
    fs::rename(complete_folder(store, step), partial_folder(store, step), failed);
    if (!failed) fs::remove_all(partial_folder(store, step), failed);
  }
}

// Rank 0's part when all files are on the disk: gives the checkpoint its final name.
Result<void> publish(const CheckpointStore& store, const CheckpointManifest& manifest) {
  const fs::path partial = partial_folder(store, manifest.progress.step);
  const fs::path complete = complete_folder(store, manifest.progress.step);
  TRY(write_durably(manifest_file(partial).string(), to_json(manifest)));
  TRY(sync_folder(partial.string()));
  std::error_code failed;
  fs::rename(partial, complete, failed);
  if (failed) return failure(complete, "cannot be renamed to this", failed);
  TRY(sync_folder(store.folder));
  remove_old(store);
  return {};
}

// Returns the first line in which two texts differ, in both versions.
std::string first_difference(std::string_view theirs, std::string_view ours) {
  const auto line = [](std::string_view& text) {
    const std::string_view front = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(front.size() + 1, text.size()));
    return front;
  };
  while (true) {
    const std::string_view a = line(theirs), b = line(ours);
    if (a != b || (theirs.empty() && ours.empty())) return fmt::format("it has '{}', this run '{}'", a, b);
  }
}

Result<CheckpointManifest> verified_manifest(const CheckpointStore& store, std::int64_t step, std::int32_t ranks) {
  const std::string path = manifest_file(complete_folder(store, step)).string();
  auto manifest = TRY(read_manifest(path));
  if (std::ssize(manifest.files) != ranks)
    return tl::unexpected(
        Error{.message = fmt::format("a checkpoint of {} ranks, but this run has {}", manifest.files.size(), ranks),
              .file = path,
              .hint = "continue with the plan that wrote it"});
  if (manifest.fingerprint != store.fingerprint)
    return tl::unexpected(Error{.message = "a checkpoint of another plan or model: " +
                                           first_difference(manifest.fingerprint, store.fingerprint),
                                .file = path,
                                .hint = "continue with the plan that wrote it, or use another folder"});
  if (manifest.progress.step != step)
    return tl::unexpected(
        Error{.message = fmt::format("a checkpoint of step {} under another step's name", manifest.progress.step),
              .file = path,
              .hint = "give the folder its own name back"});
  return manifest;
}

// Checks that the file is this rank's file of the manifest's checkpoint, and that it holds all pieces of the state.
Result<void> verify(CheckpointFile& file, const std::string& path, std::uint32_t crc,
                    const CheckpointIdentity& identity, const std::vector<StatePiece>& state, Device& device) {
  const auto refuse = [&](const std::string& what) {
    return tl::unexpected(Error{.message = what, .file = path, .hint = "continue with the plumbline that wrote it"});
  };
  if (file.crc() != crc) return damaged_checkpoint(path, "is not the file that the manifest names");
  if (const CheckpointIdentity& other = file.header().identity; other != identity) {
    if (other.fingerprint != identity.fingerprint)
      return refuse("is of another plan or model: " + first_difference(other.fingerprint, identity.fingerprint));
    return refuse(fmt::format("is of step {}, rank {} of {}, where step {}, rank {} of {} is wanted", other.step,
                              other.rank, other.ranks, identity.step, identity.rank, identity.ranks));
  }
  if (file.header().pieces.size() != state.size())
    return refuse(fmt::format("holds {} pieces of state, the run has {}", file.header().pieces.size(), state.size()));
  for (const StatePiece& piece : state) {
    const CheckpointPiece* stored = file.find(piece.name);
    if (stored == nullptr) return refuse("has no piece '" + piece.name + "'");
    const std::size_t elements = device.read(*piece.buffer).size();
    if (stored->elements != elements)
      return refuse(fmt::format("has {} elements in piece '{}', the run {}", stored->elements, piece.name, elements));
    TRY(file.read(*stored));
  }
  return {};
}

Result<void> restore(CheckpointFile& file, const std::vector<StatePiece>& state, Device& device) {
  for (const StatePiece& piece : state) {
    const auto values = TRY(file.read(*file.find(piece.name)));
    device.write(*piece.buffer, values);
  }
  return {};
}

tl::unexpected<Error> no_checkpoint(const std::string& folder) {
  return tl::unexpected(
      Error{.message = "no checkpoint there", .file = folder, .hint = "check the folder, or start anew"});
}

CheckpointIdentity own_identity(const CheckpointStore& store, std::int64_t step, const Communicator& communicator) {
  return {.step = step, .rank = communicator.rank(), .ranks = communicator.ranks(), .fingerprint = store.fingerprint};
}

template <class Value>
Result<void> outcome(const Result<Value>& result) {
  if (!result) return tl::unexpected(result.error());
  return {};
}

}  // namespace

Result<CheckpointLock> CheckpointLock::take(const std::string& folder) {
  TRY(make_folder(folder));
  const auto now = [] { return std::error_code(errno, std::generic_category()); };
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return failure(folder, "cannot be written", now());
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return failure(folder, "cannot be opened", now());
  CheckpointLock lock(descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return tl::unexpected(Error{.message = "another run writes its checkpoints there",
                                .file = folder,
                                .hint = "wait for that one, or use another folder"});
  return lock;
}

CheckpointLock::~CheckpointLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::vector<std::int64_t> complete_checkpoints(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const fs::path& path : entries(folder)) {
    const auto step = step_of(path.filename().string());
    std::error_code ignored;
    if (step && fs::exists(manifest_file(path), ignored)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

std::optional<std::int64_t> latest_checkpoint(const std::string& folder) {
  const std::vector<std::int64_t> steps = complete_checkpoints(folder);
  if (steps.empty()) return std::nullopt;
  return steps.back();
}

Result<void> save_checkpoint(const CheckpointStore& store, const TrainingProgress& progress,
                             const std::vector<StatePiece>& state, Device& device, Communicator& communicator) {
  const bool first = communicator.rank() == 0;
  TRY(agree(communicator, first ? prepare(store, progress.step) : Result<void>()));
  const CheckpointIdentity identity = own_identity(store, progress.step, communicator);
  const std::string path = rank_file(partial_folder(store, progress.step), communicator.rank()).string();
  const auto crc = write_checkpoint_file(path, identity, state, device);
  if (auto written = agree(communicator, outcome(crc)); !written) {
    std::error_code ignored;
    if (first) fs::remove_all(partial_folder(store, progress.step), ignored);  // a full disk needs the space
    return written;
  }
  const auto crcs = TRY(communicator.gather(std::to_string(*crc)));
  if (!first) return agree(communicator, {});
  CheckpointManifest manifest{.fingerprint = store.fingerprint, .progress = progress};
  for (const std::string& text : crcs) manifest.files.push_back(static_cast<std::uint32_t>(std::stoul(text)));
  return agree(communicator, publish(store, manifest));
}

Result<TrainingProgress> load_checkpoint(const CheckpointStore& store, const std::vector<StatePiece>& state,
                                         Device& device, Communicator& communicator) {
  // All ranks use rank 0's choice, because a slow file system may show them different folders.
  const auto step = TRY(from_first(communicator, latest_checkpoint(store.folder).value_or(-1)));
  if (step < 0) return no_checkpoint(store.folder);
  const auto manifest = verified_manifest(store, step, communicator.ranks());
  TRY(agree(communicator, outcome(manifest)));
  const std::string path = rank_file(complete_folder(store, step), communicator.rank()).string();
  auto file = CheckpointFile::open(path);
  auto own = outcome(file);
  if (own)
    own = verify(*file, path, manifest->files[static_cast<std::size_t>(communicator.rank())],
                 own_identity(store, step, communicator), state, device);
  TRY(agree(communicator, own));
  TRY(agree(communicator, restore(*file, state, device)));
  return manifest->progress;
}

Result<CheckpointSummary> newest_checkpoint(const std::string& folder) {
  const auto step = latest_checkpoint(folder);
  if (!step) return no_checkpoint(folder);
  const auto manifest = TRY(read_manifest(manifest_file(complete_folder({.folder = folder}, *step)).string()));
  return CheckpointSummary{*step, static_cast<std::int32_t>(manifest.files.size()), manifest.fingerprint};
}

Result<std::vector<float>> read_checkpoint_piece(const std::string& folder, std::int64_t step, std::int32_t rank,
                                                 const std::string& piece) {
  const std::string path = rank_file(complete_folder({.folder = folder}, step), rank).string();
  auto file = TRY(CheckpointFile::open(path));
  const CheckpointPiece* stored = file.find(piece);
  if (stored == nullptr) return damaged_checkpoint(path, "has no piece '" + piece + "'");
  return file.read(*stored);
}

}  // namespace plumbline::real
