import{P as n}from"./chunk-ORD2HRAJ.js";var a=t=>`/api/v1/agents/${encodeURIComponent(t)}`,i=(t,e,r={})=>n(e===""?["agents",t]:["agents",t,e],r);export{a,i as b};
