#include "topologies/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/text_file.h"
#include "model/plan/plan.h"
#include "tests/support/costs.h"
#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"
#include "tests/support/temporary_directory.h"
#include "topologies/formats.h"

namespace plumbline::topologies {
namespace {

using model::ErrorKind;
using tests::expect_error;
using tests::load_cluster;
using tests::shipped;
using tests::TemporaryDirectory;

const std::string devices = shipped("topologies/devices");
const std::string h800 = shipped("topologies/h800-rail-fat-tree.toml");

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

Variation with_gpus(std::int64_t gpus) {
  Variation variation;
  variation.gpus = gpus;
  return variation;
}

// A valid topology with one entry per line: node.gpus is on line 5.
const std::string small = R"(device = "h800-sxm"
default_profile = "h800"
[node]
interconnect = "switch"
gpus = { value = 8, unit = "1", kind = "assumed", source = "s" }
gpu_bandwidth = { value = 200, unit = "GB/s", kind = "assumed", source = "s" }
nics = { value = 8, unit = "1", kind = "assumed", source = "s" }
nic_bandwidth = { value = 400, unit = "Gb/s", kind = "assumed", source = "s" }
[fabric]
planes = { value = 8, unit = "1", kind = "assumed", source = "s" }
rails = { value = 8, unit = "1", kind = "assumed", source = "s" }
switch_ports = { value = 64, unit = "1", kind = "assumed", source = "s" }
layers = { value = 2, unit = "1", kind = "assumed", source = "s" }
oversubscription = { value = 1, unit = "1", kind = "assumed", source = "s" }
[latency]
node = { value = 3, unit = "us", kind = "assumed", source = "s" }
nic = { value = 1, unit = "us", kind = "assumed", source = "s" }
switch = { value = 0.5, unit = "us", kind = "assumed", source = "s" }
)";

TEST(Topology, ConstantsCanBeChanged) {
  Variation variation = with_gpus(2048);
  variation.constants = {{"node.gpu_bandwidth", 100}, {"device.memory_bandwidth", 4}, {"latency.*", 2}};
  const auto changed = load_topology(h800, devices, variation);
  ASSERT_TRUE(changed) << to_string(changed.error());
  EXPECT_DOUBLE_EQ(changed->cluster.intra_node_bandwidth.value(), 100e9);
  EXPECT_DOUBLE_EQ(changed->cluster.device.memory_bandwidth.value(), 4e12);
  EXPECT_DOUBLE_EQ(changed->fabric.switch_latency, 0.9e-6);
  const auto constant =
      std::ranges::find(changed->cluster.parameters, "device.memory_bandwidth", &model::Parameter::name);
  ASSERT_NE(constant, changed->cluster.parameters.end());
  EXPECT_EQ(constant->kind, model::Evidence::assumed);
}

TEST(Topology, ANetworkMayStateItsFactors) {
  EXPECT_EQ(load_topology(h800, devices, with_gpus(2048))->cluster.network, model::NetworkFactors{});
  const auto rented = load_topology(shipped("topologies/aws-p5.toml"), devices, with_gpus(64));
  ASSERT_TRUE(rented) << to_string(rented.error());
  EXPECT_LT(rented->cluster.network.exchange_rate, 1);
  EXPECT_GT(rented->cluster.network.collective_latency, 1);
  EXPECT_DOUBLE_EQ(rented->cluster.inter_node_bandwidth().value(), 50e9);
  const TemporaryDirectory folder;
  const std::string file =
      folder.write("wrong.toml", small + "[network]\n" +
                                     R"(exchange_rate = { value = 0, unit = "1", kind = "assumed", source = "s" })");
  const auto wrong = load_topology(file, devices, with_gpus(8));
  expect_error(wrong, ErrorKind::input, file, 20, "network.exchange_rate", "out of range");
}

TEST(Topology, AFileContinuesWithTheOneThatItExtends) {
  const TemporaryDirectory folder;
  const std::string base = folder.write("base.toml", small);
  const std::string file =
      folder.write("own.toml", "extends = \"base\"\n[latency]\n" +
                                   std::string(R"(node = { value = 7, unit = "us", kind = "assumed", source = "s" })"));
  const auto own = load_topology(file, devices, with_gpus(8));
  ASSERT_TRUE(own) << to_string(own.error());
  EXPECT_EQ(own->cluster.name, "own");
  EXPECT_EQ(own->description, "extends base");
  EXPECT_DOUBLE_EQ(own->fabric.node_latency, 7e-6);
  EXPECT_DOUBLE_EQ(own->fabric.nic_latency, 1e-6);
  folder.write("base.toml", replaced(small, "value = 400", "value = -400"));
  const auto wrong = load_topology(file, devices, with_gpus(8));
  expect_error(wrong, ErrorKind::input, base, 8, "node.nic_bandwidth", "out of range");
  // What the folder does not have is shipped.
  folder.write("own.toml", "extends = \"h800-rail-fat-tree\"\n");
  EXPECT_EQ(load_topology(file, devices, with_gpus(8))->cluster.default_profile, "h800");
  folder.write("own.toml", "extends = \"h800-rail\"\n");
  expect_error(load_topology(file, devices, {}).error(), ErrorKind::input, file, 1, "extends", "no topology");
}

TEST(Topology, AFolderOfDevicesAddsToTheShippedOnes) {
  const TemporaryDirectory folder;
  const std::string file = folder.write("own.toml", small);
  folder.write("devices/fat.toml",
               "extends = \"h800-sxm\"\n"
               "memory = { value = 160, unit = \"GB\", kind = \"assumed\", source = \"s\" }\n");
  const std::string own = (folder.path() / "devices").string(), bases = shipped("topologies");
  EXPECT_EQ(load_topology(file, own, with_gpus(8), bases).value().cluster.device.name, "h800-sxm");
  Variation variation = with_gpus(8);
  variation.device = "fat";
  EXPECT_DOUBLE_EQ(load_topology(file, own, variation, bases).value().cluster.device.memory.value(), 160e9);
  variation.device = "h100-sxn";
  expect_error(load_topology(file, own, variation, bases).error(), ErrorKind::input, "", 0, "cluster.device",
               "h100-sxn");
}

TEST(Topology, AChangeOfAnUnknownOrImpossibleConstantIsRefused) {
  const auto key_of = [](const std::string& name, double value) {
    Variation variation = with_gpus(2048);
    variation.constants = {{name, value}};
    const auto topology = load_topology(h800, devices, variation);
    return topology ? std::string() : topology.error().key;
  };
  EXPECT_EQ(key_of("node.gpu_bandwith", 100), "node.gpu_bandwith");
  EXPECT_EQ(key_of("device.memory_bandwith", 100), "device.memory_bandwith");
  EXPECT_EQ(key_of("node.gpu_bandwidth", -1), "node.gpu_bandwidth");
}

TEST(Topology, H800IsTheDeviceOfTheCostTests) {
  const auto shape = tests::load_cluster(h800, devices, {});
  ASSERT_TRUE(shape) << to_string(shape.error());
  EXPECT_EQ(shape->gpus, shape->gpus_per_node);  // without a number of GPUs, one node
  const model::Device expected = tests::h800_device();
  EXPECT_EQ(shape->device.name, expected.name);
  EXPECT_EQ(shape->device.sms, expected.sms);
  EXPECT_EQ(shape->device.sm.threads, expected.sm.threads);
  EXPECT_EQ(shape->device.sm.registers, expected.sm.registers);
  EXPECT_EQ(shape->device.sm.shared_memory, expected.sm.shared_memory);
}

TEST(Topology, ADeviceWithoutReservesSetsNothingAside) {
  const auto shape = tests::load_cluster(shipped("topologies/host.toml"), devices, {});
  ASSERT_TRUE(shape) << to_string(shape.error());
  EXPECT_EQ(shape->device.reserve.context, model::Bytes(0));
  EXPECT_EQ(shape->device.reserve.communicator, model::Bytes(0));
  EXPECT_EQ(shape->device.reserve.fragmentation, 0);
}

TEST(Topology, HostsHaveMemoryThatTheirGpusShare) {
  const auto device = [](const std::string& name) {
    return tests::load_cluster(shipped("topologies/" + name + ".toml"), devices, {}).value().device;
  };
  EXPECT_EQ(device("h100-dgx").host_memory.value(), 2048.0 * (1 << 30));
  EXPECT_EQ(device("h100-dgx").host_gpus, 8);
  EXPECT_EQ(device("gb200-nvl72").host_memory.value(), 960e9);
  EXPECT_EQ(device("gb200-nvl72").host_gpus, 4);
  EXPECT_EQ(device("host").host_memory.value(), 0);  // not stated
}

TEST(Topology, PlanVariesTheCluster) {
  model::Plan plan;
  plan.cluster.gpus = 12;
  plan.cluster.device = "h200-sxm";
  plan.cluster.nics_per_node = 4;
  plan.cluster.nic_gbps = 200;
  const auto shape = tests::load_cluster(h800, devices, variation_of(plan));
  ASSERT_TRUE(shape) << to_string(shape.error());
  EXPECT_EQ(shape->nodes(), 2);  // the second one is half full
  EXPECT_EQ(shape->device.name, "h200-sxm");
  EXPECT_DOUBLE_EQ(shape->device.memory.value(), 150109880320);
  EXPECT_DOUBLE_EQ(shape->nic_bandwidth.value(), 25e9);             // 200 Gb/s / 8
  EXPECT_DOUBLE_EQ(shape->inter_node_bandwidth().value(), 12.5e9);  // 4 NICs for 8 GPUs
  const auto nic = std::ranges::find(shape->parameters, "node.nic_bandwidth", &model::Parameter::name);
  ASSERT_NE(nic, shape->parameters.end());
  EXPECT_DOUBLE_EQ(nic->value, 200);
  EXPECT_EQ(nic->kind, model::Evidence::assumed);
  EXPECT_EQ(nic->source, "the plan's cluster.nic_gbps");
}

TEST(Topology, ThePlanIsToBlameForItsOwnWiring) {
  Variation variation;
  variation.oversubscription = 0.5;
  const auto shape = tests::load_cluster(h800, devices, variation);
  expect_error(shape, ErrorKind::input, h800, 0, "cluster.oversubscription", "below 1");
  variation.oversubscription = 3;  // 48 of 64 ports towards NICs
  EXPECT_EQ(capacity(load_topology(h800, devices, variation).value().fabric).leaf_down, 48);
}

TEST(Topology, WiringLimitsTheNumberOfGpus) {
  // Two layers of 64-port switches connect 64 * 32 = 2048 NICs per plane, so 2048 nodes of 8 GPUs.
  EXPECT_TRUE(tests::load_cluster(h800, devices, with_gpus(16384)));
  const auto shape = tests::load_cluster(h800, devices, with_gpus(16385));
  expect_error(shape, ErrorKind::infeasible, h800, 0, "cluster.gpus", "at most 16384 GPUs");
}

TEST(Topology, DevicesAreKnownByWhatTheyCallThemselves) {
  const auto known = load_devices(devices);
  ASSERT_TRUE(known) << to_string(known.error());
  for (const char* name : {"h200-sxm", "NVIDIA H200", "nvidia h200"}) {
    const model::Device* device = find_device(*known, name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_EQ(device->name, "h200-sxm");
  }
  EXPECT_EQ(find_device(*known, "NVIDIA H200 NVL"), nullptr);  // another product with other rates
  // No name matches two devices.
  for (const KnownDevice& one : *known)
    for (const std::string& alias : one.aliases) EXPECT_EQ(find_device(*known, alias), &one.device) << alias;
}

// Of formats with four bits AMD's GPUs have MXFP4 and not NVFP4, at twice the rate of FP8.
TEST(Topology, DevicesHaveTheFormatsOfTheirVendor) {
  const auto known = load_devices(devices);
  ASSERT_TRUE(known) << to_string(known.error());
  for (const char* name : {"mi350x", "mi355x"}) {
    const model::Device* device = find_device(*known, name);
    ASSERT_NE(device, nullptr) << name;
    EXPECT_TRUE(model::has_format(*device, model::Precision::mxfp4)) << name;
    EXPECT_FALSE(model::has_format(*device, model::Precision::nvfp4)) << name;
    EXPECT_EQ(model::peak(*device, model::Precision::mxfp4), 2 * model::peak(*device, model::Precision::fp8)) << name;
  }
  const model::Device* blackwell = find_device(*known, "b200-sxm");
  ASSERT_NE(blackwell, nullptr);
  EXPECT_TRUE(model::has_format(*blackwell, model::Precision::nvfp4));
}

TEST(Topology, AliasesAreAListOfTexts) {
  const TemporaryDirectory folder;
  folder.write("x.toml", "aliases = \"X\"\n");
  const auto text = load_devices(folder.path().string());
  expect_error(text, ErrorKind::input, (folder.path() / "x.toml").string(), 1, "aliases", "array of strings");
  folder.write("x.toml", "aliases = [\"X\", 3]\n");
  const auto number = load_devices(folder.path().string());
  expect_error(number, ErrorKind::input, (folder.path() / "x.toml").string(), 1, "aliases", "a string");
}

TEST(Topology, ADeviceLacksKernelsAndFormatsByName) {
  const TemporaryDirectory folder;
  const std::string device = model::read_text_file(devices + "/host-core.toml").value();
  folder.write("x.toml", "lacks = [\"flash3\", \"mxfp8\"]\n" + device.substr(device.find("sms = ")));
  const auto known = load_devices(folder.path().string());
  ASSERT_TRUE(known) << to_string(known.error());
  EXPECT_EQ(known->front().device.lacks, (std::vector<std::string>{"flash3", "mxfp8"}));
  folder.write("x.toml", "lacks = [\"flash4\"]\n" + device.substr(device.find("sms = ")));
  const auto wrong = load_devices(folder.path().string());
  expect_error(wrong, ErrorKind::input, (folder.path() / "x.toml").string(), 1, "lacks", "flash3");
}

TEST(Topology, UnknownDeviceNamesTheNearest) {
  const auto by_plan =
      tests::load_cluster(h800, devices, {.gpus = 8, .device = "h800-smx", .nics_per_node = {}, .nic_gbps = {}});
  expect_error(by_plan, ErrorKind::input, "", 0, "cluster.device", "did you mean 'h800-sxm'?");
  const TemporaryDirectory folder;
  const std::string path = folder.write("t.toml", replaced(small, "h800-sxm", "h8000-sxm")).string();
  expect_error(tests::load_cluster(path, devices, {}), ErrorKind::input, path, 1, "device", "did you mean 'h800-sxm'?");
}

TEST(Topology, ADeviceMayBeAFile) {
  const TemporaryDirectory folder;
  const std::string path =
      folder
          .write("mine.toml",
                 "extends = \"h800-sxm\"\nsms = { value = 100, unit = \"1\", kind = \"assumed\", source = \"s\" }")
          .string();
  Variation variation;
  variation.device = path;
  const auto shape = tests::load_cluster(h800, devices, variation);
  ASSERT_TRUE(shape) << to_string(shape.error());
  EXPECT_EQ(shape->device.name, "mine");
  EXPECT_EQ(shape->device.sms, 100);
  EXPECT_GT(shape->device.bf16_peak.value(), 0);
  model::Plan plan;
  plan.file = (folder.path() / "plan.toml").string();
  plan.cluster.device = "mine.toml";
  EXPECT_EQ(variation_of(plan).device, path);
  plan.cluster.device = std::string(300, 'a') + ".toml";
  EXPECT_EQ(variation_of(plan).device, plan.cluster.device) << "longer than a name of a file";
  variation.device = "none.toml";
  expect_error(tests::load_cluster(h800, devices, variation), ErrorKind::input, "none.toml", 0, "", "no such file");
  const std::string own = folder.write("t.toml", replaced(small, "h800-sxm", "mine.toml")).string();
  const auto named = tests::load_cluster(own, devices, {});
  ASSERT_TRUE(named) << to_string(named.error());
  EXPECT_EQ(named->device.sms, 100) << "next to the topology that names it";
}

TEST(Topology, EntriesThatAreMissingAreNamedAtOnce) {
  const TemporaryDirectory folder;
  Variation variation;
  variation.device =
      folder.write("mine.toml", "sms = { value = 100, unit = \"1\", kind = \"assumed\", source = \"s\" }").string();
  expect_error(
      tests::load_cluster(h800, devices, variation), ErrorKind::input, *variation.device, 0, "threads_per_sm",
      "required entries are missing: threads_per_sm, registers_per_sm, shared_memory_per_sm, bf16_peak, fp8_peak, "
      "memory_bandwidth, memory");
  folder.write("mine.toml", "sms = { value = 100 }");
  const auto bare = tests::load_cluster(h800, devices, variation);
  expect_error(bare, ErrorKind::input, *variation.device, 1, "sms", "lacks 'unit', 'kind', 'source'");
  const std::string path =
      folder.write("t.toml", replaced(small, "device = \"h800-sxm\"\ndefault_profile = \"h800\"\n", "")).string();
  const auto texts = tests::load_cluster(path, devices, {});
  expect_error(texts, ErrorKind::input, path, 0, "device", "required keys are missing: device, default_profile");
}

struct BadFile {
  const char* what;
  const char* from;  // empty: the beginning
  const char* to;
  int line;
  const char* key;
  const char* says;
};

class BadTopology : public testing::TestWithParam<BadFile> {};

TEST_P(BadTopology, IsAnInputErrorAtItsPlace) {
  const TemporaryDirectory folder;
  const std::string path = folder.write("t.toml", replaced(small, GetParam().from, GetParam().to)).string();
  const auto shape = tests::load_cluster(path, devices, {});
  expect_error(shape, ErrorKind::input, path, GetParam().line, GetParam().key, GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadTopology,
    testing::Values(
        BadFile{"unknown_unit", "\"GB/s\"", "\"GBps\"", 6, "node.gpu_bandwidth", "unknown unit 'GBps'"},
        BadFile{"wrong_dimension", "\"GB/s\"", "\"GB\"", 6, "node.gpu_bandwidth", "expected bytes per second"},
        BadFile{"zero", "value = 200", "value = 0", 6, "node.gpu_bandwidth", "above 0"},
        BadFile{"fraction", "value = 8", "value = 7.5", 5, "node.gpus", "a whole number"},
        BadFile{"unknown_entry",
                "layers =", "layer = { value = 2, unit = \"1\", kind = \"assumed\", source = \"s\" }\nlayers =", 13,
                "fabric.layer", "'fabric.layers'"},
        BadFile{"missing_entry", "rails =", "ralis =", 0, "fabric.rails", "missing"},
        BadFile{"uneven_rails", "rails = { value = 8", "rails = { value = 3", 11, "fabric.rails",
                "cannot be dealt evenly"},
        BadFile{"interconnect", "\"switch\"", "\"ring\"", 4, "node.interconnect", "unknown interconnect"},
        BadFile{"no_interconnect", "interconnect = \"switch\"\n", "", 0, "node.interconnect", "missing"},
        BadFile{"no_device", "device = \"h800-sxm\"\n", "", 0, "device", "required key is missing"},
        BadFile{"no_profile", "default_profile = \"h800\"\n", "", 0, "default_profile", "missing"},
        BadFile{"no_source", ", source = \"s\"", "", 5, "node.gpus", "lacks 'source'"},
        BadFile{"price_unit", "", "price.rent = { value = 2, unit = \"USD\", kind = \"assumed\", source = \"s\" }\n", 1,
                "price.rent", "a price of a GPU-hour"},
        BadFile{"price_unknown", "",
                "price.rant = { value = 2, unit = \"USD/GPU-h\", kind = \"assumed\", source = \"s\" }\n", 1,
                "price.rant", "'price.rent'"},
        BadFile{"price_always", "",
                "price.utilisation = { value = 1.2, unit = \"1\", kind = \"assumed\", source = \"s\" }\n", 1,
                "price.utilisation", "from 0 to 1"},
        BadFile{"price_pue", "", "price.pue = { value = 0.9, unit = \"1\", kind = \"assumed\", source = \"s\" }\n", 1,
                "price.pue", "from 1 to 10"},
        BadFile{
            "price_range", "",
            "price.rent = { value = 2, low = 3, high = 4, unit = \"USD/GPU-h\", kind = \"assumed\", source = \"s\" }\n",
            1, "price.rent", "not between 3 and 4"}),
    [](const auto& parameter) { return std::string(parameter.param.what); });

TEST(Topology, PricesOfOtherHardwareDoNotHold) {
  Variation variation = with_gpus(16);
  EXPECT_TRUE(tests::load_cluster(h800, devices, variation).value().prices.rent);
  variation.device = "h800-sxm";  // its own
  variation.nic_gbps = 400;
  EXPECT_TRUE(tests::load_cluster(h800, devices, variation).value().prices.rent);
  variation.device = "h200-sxm";
  const model::Prices other_gpu = tests::load_cluster(h800, devices, variation).value().prices;
  EXPECT_FALSE(other_gpu.rent);
  EXPECT_FALSE(other_gpu.server);
  EXPECT_TRUE(other_gpu.fabric_switch);
  EXPECT_EQ(other_gpu.changed, "cluster.device");
  variation.device.reset();
  variation.nic_gbps = 200;
  const model::Prices slower = tests::load_cluster(h800, devices, variation).value().prices;
  EXPECT_FALSE(slower.rent);
  EXPECT_FALSE(slower.fabric_switch);
  EXPECT_TRUE(slower.server);
}

TEST(Topology, MissingFileIsAnInputError) {
  const auto shape = tests::load_cluster("/nowhere/t.toml", devices, {});
  expect_error(shape, ErrorKind::input, "/nowhere/t.toml", 0, "", "no such file");
}

std::string gpu(const std::string& bus, const std::string& inside, const std::string& attributes = "sm=\"90\"",
                const std::string& device = "0x2330") {
  return "<pci busid=\"" + bus + "\" device=\"" + device +
         "\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n<gpu " + attributes + ">\n" + inside +
         "</gpu>\n</pci>\n";
}

std::string nic(const std::string& name, const std::string& speed) {
  return "<pci><nic><net name=\"" + name + "\" speed=\"" + speed + "\"/></nic></pci>\n";
}

std::string link(const std::string& target, int count, const std::string& element = "nvlink") {
  const std::string kind = target == "switch" ? "0x068000" : "0x030200";
  return "<" + element + " target=\"" + target + "\" count=\"" + std::to_string(count) + "\" tclass=\"" + kind +
         "\"/>\n";
}

std::string dump(const std::string& inside) {
  return "<system version=\"1\">\n<cpu>\n" + inside + "</cpu>\n</system>\n";
}

// Imports, writes the result next to the dump and loads it as any other topology.
Topology loaded(const std::string& xml, std::size_t notes) {
  const TemporaryDirectory folder;
  const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
  EXPECT_TRUE(imported) << to_string(imported.error());
  EXPECT_EQ(imported->notes.size(), notes);
  const auto topology =
      load_topology(folder.write("node.toml", imported->toml).string(), tests::shipped("topologies/devices"), {});
  EXPECT_TRUE(topology) << to_string(topology.error());
  return *topology;
}

TEST(NcclTopology, LinksToSwitches) {
  const std::string links = link("switch", 9) + link("switch", 9);
  const Topology topology =
      loaded(dump(gpu("0:1", links) + gpu("0:2", links) + nic("a", "400000") + nic("b", "400000")), 1);
  EXPECT_EQ(topology.fabric.interconnect, Interconnect::switched);
  EXPECT_EQ(topology.fabric.gpus_per_node, 2);
  EXPECT_DOUBLE_EQ(topology.fabric.gpu_bandwidth, 18 * 25e9);
  EXPECT_EQ(topology.fabric.nics, 2);
  EXPECT_DOUBLE_EQ(topology.fabric.nic_bandwidth, 50e9);
  EXPECT_EQ(topology.cluster.device.name, "h100-sxm");
}

TEST(NcclTopology, AMeshOfInfinityFabric) {
  // The PCI devices are those of a host and of a virtual machine.
  for (const auto& [name, device] :
       {std::pair{"942", "0x74a1"}, std::pair{"gfx942", "0x74b5"}, std::pair{"gfx942:sramecc+:xnack-", "0x74b5"}}) {
    const std::string gcn = "sm=\"304\" gcn=\"" + std::string(name) + "\"";
    const auto mesh_gpu = [&](const std::string& own, const std::string& one, const std::string& two) {
      return gpu(own, link(one, 1, "xgmi") + link(two, 1, "xgmi"), gcn, device);
    };
    const Topology topology =
        loaded(dump(mesh_gpu("1", "2", "3") + mesh_gpu("2", "1", "3") + mesh_gpu("3", "1", "2")), 1);  // no NIC
    EXPECT_EQ(topology.fabric.interconnect, Interconnect::mesh) << name;
    EXPECT_DOUBLE_EQ(topology.fabric.peer_bandwidth(), 64e9) << name;
    EXPECT_EQ(topology.fabric.layers, 0) << name;
    EXPECT_EQ(topology.cluster.device.name, "mi300x") << name;
  }
}

// Dumps of virtual machines have PCI devices of their own, and older kernels print speeds otherwise.
TEST(NcclTopology, GpusAreKnownByTheirPciDevices) {
  const TemporaryDirectory folder;
  const auto device = [&](const char* attributes, const char* pci) {
    const std::string xml = dump(gpu("1", "", attributes, pci) + gpu("2", "", attributes, pci));
    const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
    const std::string toml = imported ? imported->toml : to_string(imported.error());
    const std::size_t begin = toml.find("device = \"") + 10;
    return toml.substr(begin, toml.find('"', begin) - begin);
  };
  EXPECT_EQ(device("sm=\"304\" gcn=\"gfx942\"", "0x74b9"), "mi325x");
  EXPECT_EQ(device("sm=\"256\" gcn=\"950\"", "0x75b0"), "mi350x");
  EXPECT_EQ(device("sm=\"256\" gcn=\"gfx950:sramecc+:xnack-\"", "0x75a3"), "mi355x");
  EXPECT_EQ(device("sm=\"100\"", "0x2941"), "gb200");
  EXPECT_EQ(device("sm=\"103\"", "0x31c2"), "gb300");
  EXPECT_EQ(device("sm=\"70\"", "0x1db8"), "v100-sxm");
  std::string older = dump(gpu("1", "") + gpu("2", ""));
  const std::string_view printed = "32.0 GT/s PCIe";
  for (std::size_t at = 0; (at = older.find(printed)) != std::string::npos;)
    older.replace(at, printed.size(), "32 GT/s");
  EXPECT_DOUBLE_EQ(loaded(older, 2).fabric.gpu_bandwidth, 64e9);
}

TEST(NcclTopology, AMeasuredProfileIsTheDefault) {
  const TemporaryDirectory folder;
  const auto profile = [&](const char* attributes, const char* device) {
    const std::string xml = dump(gpu("1", link("switch", 12), attributes, device));
    const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
    return imported ? imported->toml : to_string(imported.error());
  };
  EXPECT_NE(profile("sm=\"80\"", "0x20b0").find("default_profile = \"a100-40gb\""), std::string::npos);
  EXPECT_NE(profile("sm=\"90\"", "0x2330").find("default_profile = \"h100\""), std::string::npos);
}

TEST(NcclTopology, WithoutLinksOverPcie) {
  // 32 GT/s on 16 lanes; the notes name PCIe, the omitted NIC and the network.
  const Topology topology = loaded(dump(gpu("1", "") + gpu("2", "") + nic("a", "200000") + nic("b", "25000")), 3);
  EXPECT_DOUBLE_EQ(topology.fabric.gpu_bandwidth, 64e9);
  EXPECT_EQ(topology.fabric.nics, 1);
}

TEST(NcclTopology, MoreNicsThanGpusAreDealtEvenly) {
  const std::string links = link("switch", 18);
  const Topology topology =
      loaded(dump(gpu("1", links) + gpu("2", links) + nic("a", "200000") + nic("b", "200000") + nic("c", "200000")), 2);
  EXPECT_EQ(topology.fabric.nics, 2);
}

TEST(NcclTopology, UnknownPartsAreReported) {
  const TemporaryDirectory folder;
  const std::string links = link("switch", 18) + "<odd/>\n";
  const std::string xml = dump("<fan/>\n" + gpu("1", links, "sm=\"90\"", "0xffff"));
  const auto imported = import_nccl_topology(folder.write("node.xml", xml).string());
  ASSERT_TRUE(imported) << to_string(imported.error());
  ASSERT_EQ(imported->notes.size(), 4u);
  EXPECT_NE(imported->notes[0].find("h100-sxm is assumed"), std::string::npos);
  EXPECT_NE(imported->notes[1].find("no NIC"), std::string::npos);
  EXPECT_NE(imported->notes[2].find("'fan', first on line 3"), std::string::npos);
  EXPECT_NE(imported->notes[3].find("'odd', first on line 7"), std::string::npos);
}

TEST(NcclTopology, WrongFiles) {
  const TemporaryDirectory folder;
  const auto expect = [&](const std::string& xml, int line, const std::string& key, const char* says) {
    const std::string path = folder.write("node.xml", xml).string();
    tests::expect_error(import_nccl_topology(path), model::ErrorKind::input, path, line, key, says);
  };
  expect("<system>\n<cpu>\n</system>\n", 3, "", "broken XML");
  expect("<graphs/>\n", 0, "", "no element 'system'");
  expect(dump(""), 0, "", "has no GPU");
  expect(dump(gpu("1", "", "dev=\"0\"")), 4, "gpu.sm", "'' is not a number above 0");
  expect(dump(gpu("1", link("switch", 0))), 5, "nvlink.count", "'0' is not a number above 0");
  expect(dump(gpu("1", "") + nic("a", "fast")), 7, "net.speed", "'fast'");
  expect(dump(gpu("1", link("switch", 4)) + gpu("2", link("switch", 2))), 9, "", "differs from the first, on line 4");
  expect(dump(gpu("1", link("switch", 4), "sm=\"50\"")), 4, "", "links of sm50");
  expect(dump(gpu("1", link("2", 1)) + gpu("2", link("1", 1)) + gpu("3", link("1", 1))), 4, "", "neither by switches");
}

}  // namespace
}  // namespace plumbline::topologies
