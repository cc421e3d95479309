export { createClient } from "./client.js";
export type { Client, ClientOptions } from "./client.js";
export { APIError, ConnectionError, violationPath } from "./error.js";
export type { Listing } from "./page.js";
export type * from "./schema.js";
export type { FollowOptions, LogOptions, Streaming } from "./stream.js";
export type { Call, CallOptions, Data, Init, Item, ListPath, PathWith } from "./types.js";
export { OperationError, isSettled } from "./wait.js";
export type { WaitOptions, Waiting } from "./wait.js";
