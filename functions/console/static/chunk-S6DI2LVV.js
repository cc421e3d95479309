import{W as s}from"./chunk-2J3GIRCY.js";var a=e=>`/api/v1/agents/${encodeURIComponent(e)}`,i=(e,t,n={})=>s(t===""?["agents",e]:["agents",e,t],n);export{a,i as b};
