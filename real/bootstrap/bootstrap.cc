#include "real/bootstrap/bootstrap.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

namespace plumbline::real {
namespace {

// PyTorch's default port, which clusters leave open.
constexpr int usual_port = 29500;
// The range of ports over which the jobs of a node are spread.
constexpr std::int64_t job_ports = 1000;

tl::unexpected<model::Error> wrong(const std::string& name, std::string message) {
  return tl::unexpected(model::Error{model::ErrorKind::input, std::move(message), "", 0, name,
                                     "the starter of the ranks, such as torchrun or srun, sets it"});
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_(name).has_value(); }
  std::string text(const std::string& name) const { return environment_(name).value_or(""); }
  std::int64_t number(const std::string& name, std::int64_t otherwise) {
    const auto text = environment_(name);
    if (!text) return otherwise;
    std::int64_t value = 0;
    const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (code == std::errc() && end == text->data() + text->size() && value >= 0 &&
        value <= std::numeric_limits<std::int32_t>::max())
      return value;
    if (error_.empty()) error_ = fmt::format("'{}' is no number of ranks or ports", *text), wrong_name_ = name;
    return otherwise;
  }
  model::Result<void> checked() const {
    if (!error_.empty()) return wrong(wrong_name_, error_);
    return {};
  }

 private:
  const Environment& environment_;
  std::string error_, wrong_name_;
};

struct Names {
  const char *starter, *rank, *ranks, *local_rank, *local_ranks;
};
constexpr Names starters[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
};

// Returns the first node of Slurm's list: node003 of "node[003-010,12]", node3 of "node3,node4".
std::string first_node(const std::string& list) {
  const std::size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of("-,]", bracket);
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1);
}

Machines machines_of(Reader& reader, const Names& names, std::int32_t ranks) {
  const std::int64_t local_ranks = reader.number(names.local_ranks, 0);
  const std::int64_t nodes = reader.number("SLURM_STEP_NUM_NODES", 0);
  if (ranks == 1 || local_ranks == ranks || nodes == 1) return Machines::one;
  return local_ranks > 0 || nodes > 1 ? Machines::several : Machines::unknown;
}

std::string host_of(const Reader& reader, const Names& names, Machines machines) {
  if (machines == Machines::one) return "127.0.0.1";
  if (reader.has("MASTER_ADDR")) return reader.text("MASTER_ADDR");
  const bool slurm = std::string_view(names.starter) == "srun";
  if (!slurm) return "";
  return first_node(reader.text(reader.has("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST"));
}

// Returns the starter's name of this job; empty: it gives none.
std::string job_of(const Reader& reader) {
  if (reader.has("TORCHELASTIC_RUN_ID")) return "torchrun " + reader.text("TORCHELASTIC_RUN_ID");
  if (reader.has("SLURM_JOB_ID"))
    return fmt::format("Slurm {}.{}", reader.text("SLURM_JOB_ID"), reader.text("SLURM_STEP_ID"));
  return reader.text("PMIX_NAMESPACE");
}

std::int64_t port_of(Reader& reader) {
  if (reader.has("PLUMBLINE_PORT")) return reader.number("PLUMBLINE_PORT", usual_port);
  if (!reader.has("MASTER_PORT")) return usual_port + reader.number("SLURM_JOB_ID", 0) % job_ports;
  // torchrun uses this port for its own store as long as the ranks run.
  return reader.number("MASTER_PORT", usual_port) + (reader.has("TORCHELASTIC_RUN_ID") ? 1 : 0);
}

}  // namespace

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

model::Result<Bootstrap> read_bootstrap(const Environment& environment) {
  Reader reader(environment);
  for (const Names& names : starters) {
    if (!reader.has(names.rank) || !reader.has(names.ranks)) continue;
    Bootstrap found;
    found.starter = names.starter;
    found.rank = static_cast<std::int32_t>(reader.number(names.rank, 0));
    found.ranks = static_cast<std::int32_t>(reader.number(names.ranks, 1));
    found.local_rank = static_cast<std::int32_t>(reader.number(names.local_rank, 0));
    found.machines = machines_of(reader, names, found.ranks);
    found.host = host_of(reader, names, found.machines);
    found.listen = reader.has("PLUMBLINE_LISTEN") ? reader.text("PLUMBLINE_LISTEN") : found.host;
    found.job = job_of(reader);
    found.port = static_cast<int>(port_of(reader));
    TRY(reader.checked());
    constexpr int most = 65535;
    if (found.port < 1 || found.port > most) return wrong("MASTER_PORT", fmt::format("{} is no port", found.port));
    if (found.rank >= found.ranks)
      return wrong(names.rank, fmt::format("there is no rank {} among {}", found.rank, found.ranks));
    return found;
  }
  return Bootstrap{};
}

}  // namespace plumbline::real
