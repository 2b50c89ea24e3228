#include "calibrate/import/components/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "calibrate/import/components/detail/tables.h"

namespace plumbline::calibrate {
namespace {

using components::Layout;
using components::Merge;

constexpr double thinning_tolerance = 0.03;

// A project whose tables are read: how its sources begin, and the notice that its license asks for.
struct Repository {
  std::string_view start, name, folder, license;
  std::string_view note;  // on how the times came about; may be empty
  Merge merge = Merge::median;
};
constexpr Repository repositories[] = {
    {"aic:", "ai-dynamo/aiconfigurator", "aic-core/src/aiconfigurator_core/systems/data/",
     "Apache-2.0 (LICENSE-Apache-2.0), Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.",
     "", Merge::median},
    {"ROCm/aiter@", "ROCm/aiter", "",
     "MIT (LICENSE-MIT-aiter), Copyright (c) Advanced Micro Devices, Inc. All rights reserved.",
     "each time is of the best kernel that a search found, of two searches the better one, without quantizing",
     Merge::least},
    {"NVIDIA/cudnn-frontend@", "NVIDIA/cudnn-frontend", "",
     "Apache-2.0 (LICENSE-Apache-2.0), Copyright (c) 2020-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved.",
     "times are by the profiler, of ten launches in a row", Merge::median},
};

// Where rows come from: "ai-dynamo/aiconfigurator @095f58a5", and the path in it.
struct Origin {
  const Repository* repository = nullptr;
  std::string commit, path;
};

// What is collected of one table of one GPU from one layout.
struct Batch {
  std::vector<components::Record> records;
  std::map<std::pair<const Repository*, std::string>, std::set<std::string>> paths;  // by repository and commit
  components::TableHeading heading;
};
struct BatchKey {
  std::string gpu;
  const Layout* layout = nullptr;
  auto operator<=>(const BatchKey&) const = default;
};
using Batches = std::map<BatchKey, Batch>;

model::Result<Origin> origin_of(const CsvTable& csv, std::size_t row, const std::string& revision) {
  const std::string& source = csv.text(row, "source");
  for (const Repository& repository : repositories) {
    if (!source.starts_with(repository.start)) continue;
    const std::string rest = source.substr(repository.start.size());
    if (repository.start.ends_with('@')) {
      const std::size_t blank = rest.find(' ');
      return Origin{&repository, rest.substr(0, blank), blank == std::string::npos ? "" : rest.substr(blank + 1)};
    }
    if (revision.empty())
      return model::wrong_input("--revision", fmt::format("rows of {} do not name its commit", repository.name),
                                "state the commit that the tables are from, for example --revision 095f58a5");
    return Origin{&repository, revision, std::string(repository.folder) + rest};
  }
  return csv.wrong(row, "source", fmt::format("'{}' is of no repository whose license is known", source),
                   "known beginnings: aic:, ROCm/aiter@, NVIDIA/cudnn-frontend@");
}

const Layout* layout_of(const CsvTable& csv) {
  for (const Layout& layout : components::layouts())
    if (std::ranges::all_of(layout.needed, [&](std::string_view column) { return csv.has(column); })) return &layout;
  return nullptr;
}

model::Result<void> collect(const std::string& path, const std::string& revision, Batches& batches) {
  const auto csv = TRY(CsvTable::read(path, {"gpu", "source"}));
  const Layout* layout = layout_of(csv);
  if (layout == nullptr) {
    std::vector<std::string> known;
    for (const Layout& each : components::layouts())
      known.push_back(fmt::format("{} ({})", each.file, fmt::join(each.needed, ",")));
    return model::wrong_input_at(path, 0, "", "its columns are those of no component table",
                                 fmt::format("known: {}", fmt::join(known, "; ")));
  }
  for (std::size_t row = 0; row < csv.rows(); ++row) {
    const std::string& name = csv.text(row, "gpu");
    const std::string gpu = components::gpu_folder(name);
    if (name.empty() || !std::ranges::all_of(gpu, [](unsigned char c) { return std::isalnum(c) != 0; }))
      return csv.wrong(row, "gpu", fmt::format("'{}' is no name of a GPU", name));
    if (gpu.empty()) continue;
    const auto origin = TRY(origin_of(csv, row, revision));
    components::Record record = TRY(layout->record(csv, row));
    Batch& batch = batches[{gpu, layout}];
    batch.heading.gpu = gpu;
    ++batch.heading.read;
    if (!record.left_out.empty()) {
      ++batch.heading.losses[record.left_out];
      continue;
    }
    batch.heading.names.insert(name);
    batch.paths[{origin.repository, origin.commit}].insert(origin.path);
    batch.records.push_back(std::move(record));
  }
  return {};
}

// Returns a line that names commit and paths; of many paths the folder and their number.
std::string source_line(const Repository& repository, const std::string& commit, const std::set<std::string>& paths) {
  constexpr std::size_t most_listed = 12;
  const std::string start = fmt::format("{} @{}", repository.name, commit);
  if (paths.size() > most_listed) {
    const std::string& first = *paths.begin();
    return fmt::format("{}, {} files {}/*.csv", start, paths.size(), first.substr(0, first.rfind('/')));
  }
  return fmt::format("{}, {}", start, fmt::join(paths, ", "));
}

// Merges and thins the batch; counts in its heading what that leaves out.
void reduce(const Layout& layout, Batch& batch) {
  // A GPU's table comes from one repository.
  const Merge merge = batch.paths.empty() ? Merge::median : batch.paths.begin()->first.first->merge;
  const std::size_t kept = batch.records.size();
  batch.records = components::merged(std::move(batch.records), merge);
  batch.heading.merged = kept - batch.records.size();
  if (!layout.axis.empty()) {
    const std::size_t before = batch.records.size();
    const auto axis = std::ranges::find(layout.keys, layout.axis) - layout.keys.begin();
    batch.records = components::thinned(std::move(batch.records), static_cast<std::size_t>(axis), thinning_tolerance);
    batch.heading.thinned[std::string(layout.axis)] = before - batch.records.size();
  }
  for (const auto& [origin, paths] : batch.paths) {
    batch.heading.sources.insert(source_line(*origin.first, origin.second, paths));
    batch.heading.licenses.insert(std::string(origin.first->license));
    if (!origin.first->note.empty()) batch.heading.notes.insert(std::string(origin.first->note));
  }
}

// Adds what another layout holds for the same file.
void add(Batch& to, Batch from) {
  std::ranges::move(from.records, std::back_inserter(to.records));
  to.heading.names.merge(from.heading.names);
  to.heading.sources.merge(from.heading.sources);
  to.heading.licenses.merge(from.heading.licenses);
  to.heading.notes.merge(from.heading.notes);
  to.heading.read += from.heading.read;
  to.heading.merged += from.heading.merged;
  for (const auto& [axis, rows] : from.heading.thinned) to.heading.thinned[axis] += rows;
  for (const auto& [reason, rows] : from.heading.losses) to.heading.losses[reason] += rows;
}

}  // namespace

model::Result<std::vector<ComponentFile>> import_components(const std::vector<std::string>& paths,
                                                            const std::string& revision) {
  Batches batches;
  for (const std::string& path : paths) TRY(collect(path, revision, batches));
  std::map<std::string, std::pair<const Layout*, Batch>> files;  // by path
  for (auto& [key, batch] : batches) {
    reduce(*key.layout, batch);
    const std::string path = fmt::format("{}/{}", key.gpu, key.layout->file);
    if (const auto found = files.find(path); found != files.end())
      add(found->second.second, std::move(batch));
    else
      files.emplace(path, std::pair{key.layout, std::move(batch)});
  }
  std::vector<ComponentFile> result;
  for (const auto& [path, table] : files) {
    const auto& [layout, batch] = table;
    if (batch.records.empty()) continue;
    result.push_back({path, components::table_text(*layout, batch.heading, batch.records), batch.heading.read});
  }
  return result;
}

}  // namespace plumbline::calibrate
