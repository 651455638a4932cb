// cuDNN's backend interface: descriptors of any type hold the attributes that are set and give them back. Every
// operation graph has one engine configuration; its workspace is that of the convolution in it, if there is one.
//
// A descriptor that is an attribute of another is shared with it. One that the caller hands in to be filled (the
// configurations that a heuristic finds, the engine of a configuration) becomes a copy.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cudnn_convolution.h"
#include "stand_in.h"

namespace stalloc::simcuda::libraries {
namespace {

// Numbers of cudnnBackendDescriptorType_t, cudnnBackendAttributeType_t and cudnnBackendAttributeName_t.
enum DescriptorType {
  kEngine = 2,
  kEngineConfiguration = 3,
  kEngineHeuristic = 4,
  kExecutionPlan = 5,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
};
enum AttributeType {
  kHandleType = 0,
  kBooleanType = 2,
  kInt32Type = 23,
  kCharType = 24,
  kInt64Type = 3,
  kDoubleType = 5,
  kPointerType = 6,
  kDescriptorType = 15,
  kFractionType = 26
};
enum AttributeName {
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigurationEngine = 300,
  kConfigurationWorkspace = 303,
  kConfigurationSharedMemory = 304,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kForwardFilter = 703,
  kForwardImage = 704,
  kForwardResponse = 705,
  kDataFilter = 709,
  kDataImage = 710,
  kDataResponse = 711,
  kFilterFilter = 715,
  kFilterImage = 716,
  kFilterResponse = 717,
  kGraphOperations = 801,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
};

constexpr int kNotSupported = 3000;  // CUDNN_STATUS_NOT_SUPPORTED

struct Contents;
using ContentsPointer = std::shared_ptr<Contents>;

struct Attribute {
  std::vector<char> bytes;
  std::vector<ContentsPointer> descriptors;
  std::int64_t count = 0;
};

struct Contents {
  std::int64_t type = 0;
  std::map<std::int64_t, Attribute> attributes;
};

struct Descriptor {
  ContentsPointer contents;
};

std::size_t AttributeBytes(std::int64_t type) {
  switch (type) {
    case kBooleanType:
    case kCharType:
      return 1;
    case kHandleType:
    case kInt64Type:
    case kDoubleType:
    case kPointerType:
    case kFractionType:  // two 64-bit integers are copied by its own size below
      return type == kFractionType ? 16 : 8;
    default:
      return 4;  // enumerations, float, int32
  }
}

ContentsPointer ChildOf(const ContentsPointer& parent, std::int64_t name, std::size_t index = 0) {
  if (parent == nullptr) return nullptr;
  const auto found = parent->attributes.find(name);
  if (found == parent->attributes.end() || index >= found->second.descriptors.size()) return nullptr;
  return found->second.descriptors[index];
}

std::vector<std::int64_t> Integers(const Contents& contents, std::int64_t name) {
  const auto found = contents.attributes.find(name);
  if (found == contents.attributes.end()) return {};
  std::vector<std::int64_t> values(found->second.bytes.size() / sizeof(std::int64_t));
  std::memcpy(values.data(), found->second.bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

CudnnTensor TensorOf(const ContentsPointer& contents) {
  CudnnTensor tensor;
  if (contents == nullptr) return tensor;
  tensor.sizes = Integers(*contents, kTensorSizes);
  tensor.strides = Integers(*contents, kTensorStrides);
  if (const auto type = contents->attributes.find(kTensorType);
      type != contents->attributes.end() && type->second.bytes.size() >= 4) {
    std::int32_t value = 0;
    std::memcpy(&value, type->second.bytes.data(), 4);
    tensor.data_type = value;
  }
  return tensor;
}

std::int64_t WorkspaceOfOperation(const ContentsPointer& operation) {
  const auto convolution = [&](ConvolutionPass pass, int image, int filter, int response) {
    return ConvolutionWorkspaceBytes({pass, TensorOf(ChildOf(operation, image)), TensorOf(ChildOf(operation, filter)),
                                      TensorOf(ChildOf(operation, response))});
  };
  switch (operation->type) {
    case kConvolutionForward:
      return convolution(ConvolutionPass::kForward, kForwardImage, kForwardFilter, kForwardResponse);
    case kConvolutionBackwardFilter:
      return convolution(ConvolutionPass::kBackwardFilter, kFilterImage, kFilterFilter, kFilterResponse);
    case kConvolutionBackwardData:
      return convolution(ConvolutionPass::kBackwardData, kDataImage, kDataFilter, kDataResponse);
    default:
      return 0;
  }
}

std::int64_t WorkspaceOfGraph(const ContentsPointer& graph) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; const ContentsPointer operation = ChildOf(graph, kGraphOperations, i); ++i) {
    bytes = std::max(bytes, WorkspaceOfOperation(operation));
  }
  return bytes;
}

Attribute OneDescriptor(ContentsPointer contents) {
  Attribute attribute;
  attribute.count = 1;
  attribute.descriptors.push_back(std::move(contents));
  return attribute;
}

template <typename Number>
Attribute OneNumber(Number number) {
  Attribute attribute;
  attribute.count = 1;
  attribute.bytes.resize(sizeof number);
  std::memcpy(attribute.bytes.data(), &number, sizeof number);
  return attribute;
}

// What a descriptor knows once it is complete.
void Finish(const ContentsPointer& contents) {
  if (contents->type == kEngineHeuristic) {
    const ContentsPointer graph = ChildOf(contents, kHeuristicGraph);
    auto engine = std::make_shared<Contents>();
    engine->type = kEngine;
    engine->attributes[kEngineGraph] = OneDescriptor(graph);
    engine->attributes[kEngineIndex] = OneNumber<std::int64_t>(0);
    auto configuration = std::make_shared<Contents>();
    configuration->type = kEngineConfiguration;
    configuration->attributes[kConfigurationEngine] = OneDescriptor(std::move(engine));
    configuration->attributes[kConfigurationWorkspace] = OneNumber(WorkspaceOfGraph(graph));
    configuration->attributes[kConfigurationSharedMemory] = OneNumber<std::int32_t>(0);
    contents->attributes[kHeuristicResults] = OneDescriptor(std::move(configuration));
  } else if (contents->type == kExecutionPlan) {
    const ContentsPointer engine = ChildOf(ChildOf(contents, kPlanConfiguration), kConfigurationEngine);
    contents->attributes[kPlanWorkspace] = OneNumber(WorkspaceOfGraph(ChildOf(engine, kEngineGraph)));
  }
}

// (type, *descriptor)
int CreateBackend(Arguments arguments) {
  auto* descriptor = new Descriptor{std::make_shared<Contents>()};
  descriptor->contents->type = Int32(arguments[0]);
  *Pointer<Descriptor*>(arguments[1]) = descriptor;
  return 0;
}

int DestroyBackend(Arguments arguments) {
  delete Pointer<Descriptor>(arguments[0]);
  return 0;
}

int FinalizeBackend(Arguments arguments) {
  Finish(Pointer<Descriptor>(arguments[0])->contents);
  return 0;
}

// (descriptor, name, type, count, values)
int SetAttribute(Arguments arguments) {
  Attribute attribute;
  attribute.count = Int64(arguments[3]);
  if (Int32(arguments[2]) == kDescriptorType) {
    Descriptor* const* values = Pointer<Descriptor*>(arguments[4]);
    for (std::int64_t i = 0; i < attribute.count; ++i) attribute.descriptors.push_back(values[i]->contents);
  } else {
    const auto* bytes = Pointer<const char>(arguments[4]);
    const std::size_t size = AttributeBytes(Int32(arguments[2])) * static_cast<std::size_t>(attribute.count);
    if (bytes != nullptr) attribute.bytes.assign(bytes, bytes + size);
  }
  Pointer<Descriptor>(arguments[0])->contents->attributes[Int32(arguments[1])] = std::move(attribute);
  return 0;
}

// (descriptor, name, type, requested, *count, values). With no values asked for, only their number is answered.
int GetAttribute(Arguments arguments) {
  const ContentsPointer& contents = Pointer<Descriptor>(arguments[0])->contents;
  const std::int64_t requested = Int64(arguments[3]);
  auto* count = Pointer<std::int64_t>(arguments[4]);
  const auto found = contents->attributes.find(Int32(arguments[1]));
  if (found == contents->attributes.end()) {
    if (count == nullptr) return kNotSupported;
    *count = 0;
    return 0;
  }
  const Attribute& attribute = found->second;
  if (count != nullptr) *count = attribute.count;
  if (arguments[5] == 0) return 0;
  const std::int64_t given = std::min(requested, attribute.count);
  if (!attribute.descriptors.empty()) {
    Descriptor* const* values = Pointer<Descriptor*>(arguments[5]);
    for (std::int64_t i = 0; i < given; ++i) *values[i]->contents = *attribute.descriptors[static_cast<std::size_t>(i)];
  } else if (attribute.count > 0) {
    const std::size_t element = attribute.bytes.size() / static_cast<std::size_t>(attribute.count);
    std::memcpy(Pointer<void>(arguments[5]), attribute.bytes.data(), element * static_cast<std::size_t>(given));
  }
  return 0;
}

}  // namespace

#define ROW(...) STAND_IN_FUNCTION(__VA_ARGS__)
ROW(cudnnBackendCreateDescriptor, CreateBackend)
ROW(cudnnBackendDestroyDescriptor, DestroyBackend)
ROW(cudnnBackendExecute, Nothing)
ROW(cudnnBackendFinalize, FinalizeBackend)
ROW(cudnnBackendGetAttribute, GetAttribute)
ROW(cudnnBackendSetAttribute, SetAttribute)
#undef ROW

}  // namespace stalloc::simcuda::libraries
