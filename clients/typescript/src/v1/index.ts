/** All generated messages. */
export * from "../generated/topicpolicies/v1/errors_pb.js";
export * from "../generated/topicpolicies/v1/events_pb.js";
export * from "../generated/topicpolicies/v1/history_pb.js";
export * from "../generated/topicpolicies/v1/policies_pb.js";
export * from "../generated/topicpolicies/v1/service_pb.js";
